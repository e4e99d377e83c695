"""Wrong interfaces and links that are down, on virtual hosts: named on every rank, exit 91, with what works.
What gloo can live with is left alone."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import pytest
import torch.distributed as dist
from guards.job import Ended
from guards.on_hosts import run_on_hosts

from chaoskit.guards import nic_checking, nic_gathering, nic_rate
from chaoskit.guards.context import StandaloneContext, say
from chaoskit.guards.nic_check import NicCheck
from chaoskit.network import Nic

CHECK = NicCheck(wait_s=30.0, connect_timeout_s=3.0)
DOCKER = (Nic(), Nic("docker0", same_address="172.17.0.1/16"))
TWO = (Nic(), Nic("eth1"))
IPV6 = (Nic(), Nic("eth1", subnet="fd00:77::/64"))


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that the machine holds up for seconds is waited for: here all come."""
    monkeypatch.setattr(nic_checking, "_GRACE_S", 20.0)
    for module in (nic_checking, nic_gathering):
        monkeypatch.setattr(module, "LEAVE_S", 20.0)
    monkeypatch.setattr(nic_rate, "_MEETS_S", 15.0)
    monkeypatch.setattr(nic_rate, "MOST_S", 60.0)


def form() -> None:
    """Form the group; tell whom the guard blames, too."""

    def fired(
        self: object, guard: str, code: int, message: str, local: bool, blames: tuple[str, ...]
    ) -> None:
        say(f"{message} (blames {', '.join(blames)})")

    StandaloneContext.fired = fired  # type: ignore[assignment,method-assign]
    dist.init_process_group("gloo")
    dist.barrier()
    dist.destroy_process_group()


def only_line(ended: list[Ended]) -> str:
    """All ranks ended with 91 and the same line, which is returned."""
    assert [e.code for e in ended] == [91] * len(ended), [e.err for e in ended]
    lines = {line for e in ended for line in e.err.splitlines() if "(blames " in line}
    assert len(lines) == 1, lines
    return lines.pop().removeprefix("chaoskit: ")


def test_the_bridge_of_containers_on_every_host() -> None:
    ended = run_on_hosts(form, CHECK, ranks=4, nics=DOCKER, everywhere={"GLOO_SOCKET_IFNAME": "docker0"})
    line = only_line(ended)
    assert line.startswith(
        "rank 0 (hostA, docker0 172.17.0.1) cannot be reached from rank 2 (hostB, docker0 172.17.0.1): "
        "connection refused, as both hosts have that address; "
    )
    assert "and 1 more pair; eth0 works (10.77.0.1 answers): set GLOO_SOCKET_IFNAME=eth0 " in line
    assert line.endswith("(blames nic hostA docker0, nic hostB docker0)")


def test_a_name_that_resolves_to_loopback_at_home() -> None:
    line = only_line(run_on_hosts(form, CHECK, own_name="127.0.1.1"))
    assert "rank 0 (hostA, lo 127.0.1.1, the address of its own name) cannot be reached from" in line
    assert "eth0 works (10.77.0.1 answers): set GLOO_SOCKET_IFNAME=eth0" in line
    assert line.endswith("(blames nic hostA lo, nic hostB lo)")


def test_one_port_down_of_three() -> None:
    def down(fabric: Any) -> None:
        fabric.set_port(("hostB", "eth1"), False)

    line = only_line(
        run_on_hosts(
            form, CHECK, ranks=3, hosts=3, nics=TWO, everywhere={"GLOO_SOCKET_IFNAME": "eth1"}, change=down
        )
    )
    # The kernel knows after 3 s that nobody has the address.
    assert re.search(
        r"cannot be reached from rank 1 \(hostB, eth1 10\.77\.1\.2\): (no answer|No route to host); ", line
    ), line
    assert "eth0 works" in line
    assert line.endswith("(blames nic hostB eth1)")


def test_one_port_down_of_two_is_the_link() -> None:
    wrong = {"GLOO_SOCKET_IFNAME": "eth1"}
    nics = (Nic(), Nic("eth1", port="down"))
    line = only_line(run_on_hosts(form, CHECK, nics=nics, everywhere=wrong))
    assert line.endswith(
        "eth0 works (10.77.0.1 answers): set GLOO_SOCKET_IFNAME=eth0 (blames link hostA–hostB)"
    )


def test_ipv4_against_ipv6() -> None:
    names: dict[int, dict[str, str | None]] = {
        0: {"GLOO_SOCKET_IFNAME": "eth0"},
        1: {"GLOO_SOCKET_IFNAME": "eth1"},
    }
    line = only_line(run_on_hosts(form, CHECK, nics=IPV6, env=names))
    assert "an IPv4 address on one side, an IPv6 address on the other; eth0 works (10.77.0.2 answers)" in line
    assert line.endswith("(blames nic hostA eth0, nic hostB eth1)")


@pytest.mark.parametrize(
    ("nics", "names"),
    [
        (IPV6, ("eth1", "eth1")),
        (TWO, ("eth0", "eth1")),
        (TWO, ("eth0,eth1", "eth0,eth1")),
        (DOCKER, ("eth0", "docker0")),
        ((), ("eth0", "lo")),
    ],
    ids=["IPv6", "an interface each", "two devices", "docker0 on the side that connects", "lo likewise"],
)
def test_what_gloo_can_live_with_is_left_alone(nics: tuple[Nic, ...], names: tuple[str, str]) -> None:
    env: dict[int, dict[str, str | None]] = {n: {"GLOO_SOCKET_IFNAME": name} for n, name in enumerate(names)}
    for ended in run_on_hosts(form, CHECK, nics=nics, env=env):
        assert ended.code == 0, ended.err


def test_a_link_that_comes_back_in_time_is_left_alone() -> None:
    def flap(fabric: Any) -> None:
        fabric.set_port(("hostB", "eth1"), False)
        if os.fork() == 0:
            time.sleep(2.5)  # the flap is the subject; the ranks are long there
            fabric.set_port(("hostB", "eth1"), True)
            os._exit(0)

    patient = NicCheck(wait_s=30.0, connect_timeout_s=15.0)
    everywhere: dict[str, str | None] = {"GLOO_SOCKET_IFNAME": "eth1"}
    for ended in run_on_hosts(form, patient, nics=TWO, everywhere=everywhere, change=flap):
        assert ended.code == 0, ended.err


# Far from what the link carries, as a busy machine sends and receives less, itself too.
@pytest.mark.parametrize(("min_rate", "slow"), [("2mbit", False), ("1gbit", True)])
def test_a_slow_interface_is_told_and_the_job_goes_on(min_rate: str, slow: bool) -> None:
    check = NicCheck(wait_s=30.0, connect_timeout_s=5.0, min_rate=min_rate)
    nics = (Nic(), Nic("eth1", rate_bps=20e6))
    ended = run_on_hosts(form, check, nics=nics, everywhere={"GLOO_SOCKET_IFNAME": "eth1"})
    assert [e.code for e in ended] == [0, 0], [e.err for e in ended]
    line = "chaoskit: guard nic_check: {} eth1 carries "
    told = [line.format(host) in e.err for host, e in zip(("hostA", "hostB"), ended, strict=True)]
    assert told == [slow, slow], [e.err for e in ended]
    assert not slow or "Mbit/s to hostB, below min_rate 1 Gbit/s" in ended[0].err
