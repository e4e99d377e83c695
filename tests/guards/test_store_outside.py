"""The store apart from the ranks: the rule as values, and the process that holds it, with real ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from free_ports import free_port
from guards.job import start

from chaoskit.guards.census import Census
from chaoskit.guards.group_kill import Kill
from chaoskit.guards.store_outside import StoreOutside, StoreOutsidePolicy

pytestmark = pytest.mark.timeout(300)  # each start imports torch
MODULE = [sys.executable, "-m", "chaoskit.guards.store_outside"]

# ---------------------------------------------------------------- the rule


def policy() -> StoreOutsidePolicy:
    return StoreOutside(silent_s=5, grace_s=2).policy(4)


def test_its_end_ends_the_job_at_once_and_again_after_the_grace() -> None:
    rule = policy()
    assert rule.next_due() is None
    rule.on_store_end(-9, 10.0)
    why = "the store on host store was ended by SIGKILL"
    assert rule.due(10.0) == [Kill(None, signal.SIGTERM, why)]
    assert rule.next_due() == 12.0
    assert rule.due(12.0) == [Kill(None, signal.SIGKILL, f"{why}; alive 2 s after SIGTERM")]
    assert rule.next_due() is None


def test_a_stop_is_given_its_wait() -> None:
    rule = policy()
    rule.on_store_stop(10.0)
    assert rule.next_due() == 15.0
    assert rule.due(14.9) == []
    assert [k.reason for k in rule.due(15.0)] == ["the store on host store has been stopped for 5 s"]


def test_a_store_that_goes_on_is_forgiven() -> None:
    rule = policy()
    rule.on_store_stop(10.0)
    rule.on_store_continue(14.0)
    assert rule.next_due() is None
    rule.on_store_stop(20.0)
    assert rule.next_due() == 25.0


@pytest.mark.parametrize("found", ["was ended by SIGKILL", "is stopped"])
def test_of_a_store_on_a_silent_host_nobody_learns_before_the_wait(found: str) -> None:
    rule = policy()
    rule.on_host_lost("store", (), 10.0)
    if "ended" in found:
        rule.on_store_end(-9, 10.1)
    else:
        rule.on_store_stop(10.1)
    assert rule.next_due() == 15.0
    (kill,) = rule.due(15.0)
    assert kill.reason == f"the store on host store has not answered for 5 s: it {found}"


def test_a_host_that_answers_again_is_forgiven() -> None:
    rule = policy()
    rule.on_host_lost("store", (), 10.0)
    rule.on_store_stop(10.0)
    rule.on_host_back("store", 12.0)
    rule.on_store_continue(12.0)
    assert rule.next_due() is None


def test_ranks_and_their_hosts_are_the_business_of_others() -> None:
    rule = policy()
    rule.on_end(0, -9, False, 1.0)
    rule.on_stop(1, 1.0)
    rule.on_continue(1, 2.0)
    rule.on_host_lost("hostB", (2, 3), 1.0)
    assert rule.next_due() is None


# ---------------------------------------------------------------- the process


@pytest.fixture
def store() -> Iterator[tuple[subprocess.Popen[str], dict[str, str | None]]]:
    """A store in a process of its own, and the variables that it says."""
    command = [*MODULE, "--port", "0", "--host", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in range(4)]
        assert {line[0] for line in lines} == {"export"}
        pairs = (line[1].partition("=") for line in lines)
        yield process, {name: value for name, _, value in pairs}
        process.kill()


def collect() -> None:
    """Form the group and others, without any rank that hosts a store."""
    dist.init_process_group("gloo")
    half = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        dist.all_reduce(torch.ones(1), group=half)
    total = torch.ones(1)
    dist.all_reduce(total)
    print(total.item())
    dist.destroy_process_group()


def test_ranks_form_with_it_and_it_ends_by_sigterm(
    store: tuple[subprocess.Popen[str], dict[str, str | None]],
) -> None:
    process, said = store
    ended = start(collect, Census(wait_s=60), ranks=3, env=dict.fromkeys(range(3), said)).wait(60)
    assert [(e.code, e.out) for e in ended] == [(0, "3.0\n")] * 3, ended[0].err
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0


def test_a_store_that_is_not_there_is_named_by_all() -> None:
    env: dict[str, str | None] = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_PORT": str(free_port())}
    for ended in start(collect, Census(wait_s=1), env=dict.fromkeys(range(2), env)).wait():
        assert ended.code == 80
        assert "nothing answers at MASTER_ADDR:MASTER_PORT" in ended.err
        assert "expected the store there, which no rank holds" in ended.err


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MODULE, *words], capture_output=True, text=True, timeout=240, env={**os.environ})


def test_a_port_that_is_taken_is_named(store: tuple[subprocess.Popen[str], dict[str, str | None]]) -> None:
    port = store[1]["MASTER_PORT"] or ""
    done = run("--port", port)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"chaoskit: no store can be served at port {port}: " in done.stderr
    assert "EADDRINUSE" in done.stderr


@pytest.mark.parametrize("words", [("--port", "99999"), ("--port", "-1"), ("--port", "x"), ("--prot", "1")])
def test_bad_input_is_told(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 64
    assert done.stderr.startswith("chaoskit: ")
    assert "Traceback" not in done.stderr
