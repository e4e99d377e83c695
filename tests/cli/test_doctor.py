"""``chaoskit doctor``: the table, what is skipped, and what would change it."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable

import pytest

from chaoskit.capabilities import Capability
from chaoskit.cli.doctor import Diagnosis, Skipped, show, skipped
from chaoskit.errors import ExitCode
from chaoskit.model import Scenario, Topology

pytestmark = pytest.mark.usefixtures("plain_environment")

FOUND = (
    Capability("ptrace", True, "stacks of other processes can be read"),
    Capability("memory-cgroup", False, "none can be made \x1b[31mhere", "docker run --privileged"),
    Capability("nccl", False, "no NVIDIA driver", "docker run --gpus all"),
)
DIAGNOSIS = Diagnosis((("torch", "2.13.0"), ("kernel", "6.1")), FOUND, (Skipped("oom", ("memory-cgroup",)),))


def test_the_table(stream: Callable[..., io.StringIO]) -> None:
    out = stream()
    assert show(DIAGNOSIS, out, json_format=False) is ExitCode.OK
    assert (
        out.getvalue()
        == """\
torch 2.13.0, kernel 6.1
yes ptrace         stacks of other processes can be read
no  memory-cgroup  none can be made \\x1b[31mhere
      to have it: docker run --privileged
no  nccl           no NVIDIA driver
      to have it: docker run --gpus all

1 scenario will be skipped here:
  oom: no memory-cgroup
with --backend nccl every scenario will be skipped here
"""
    )


@pytest.mark.parametrize("width", ["40", "80", "200"])
def test_it_keeps_to_the_width(
    width: str, stream: Callable[..., io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    out = stream()
    show(DIAGNOSIS, out, json_format=False)
    assert all(len(line) <= int(width) for line in out.getvalue().splitlines())


def test_json(stream: Callable[..., io.StringIO]) -> None:
    out = stream()
    show(DIAGNOSIS, out, json_format=True)
    document = json.loads(out.getvalue())
    assert document["versions"] == {"torch": "2.13.0", "kernel": "6.1"}
    assert document["capabilities"][2] == {
        "name": "nccl", "available": False, "detail": "no NVIDIA driver", "remedy": "docker run --gpus all",
    }  # fmt: skip
    assert document["skipped"] == [{"scenario": "oom", "missing": ["memory-cgroup"]}]


def test_nothing_is_skipped_where_all_is_there(stream: Callable[..., io.StringIO]) -> None:
    out = stream()
    show(Diagnosis((), FOUND[:1], ()), out, json_format=False)
    assert out.getvalue().endswith("no scenario will be skipped here\n")


def test_a_library_that_cannot_be_read_does_not_hide_the_table(stream: Callable[..., io.StringIO]) -> None:
    out = stream()
    show(dataclasses.replace(DIAGNOSIS, unreadable="x.yaml:1: bad"), out, json_format=False)
    assert "yes ptrace" in out.getvalue()
    assert out.getvalue().endswith("the library cannot be read: x.yaml:1: bad\n")


def test_what_a_scenario_and_its_backend_need(scenario: Callable[..., Scenario]) -> None:
    library = (
        dataclasses.replace(scenario("oom"), requires=("memory-cgroup", "ptrace")),
        dataclasses.replace(scenario("gpu"), topology=Topology(backend="nccl")),
        scenario("plain"),
    )
    assert skipped(library, FOUND) == (Skipped("oom", ("memory-cgroup",)), Skipped("gpu", ("nccl",)))
