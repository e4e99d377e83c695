"""The switch and the store of virtual hosts: there with the ranks, gone with them, and missed when lost."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaoskit import capabilities
from chaoskit.history import Ended, Leftover, Malfunction, Signalled, Started, Stopped
from chaoskit.hosts import namespaces
from chaoskit.launchers import kernel, sweep
from chaoskit.launchers.forkserver import Server, ServerPool

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not capabilities.find("virtual-hosts").available, reason="no virtual hosts here; see chaoskit doctor"
    ),
]
Begin = Callable[..., Any]
GONE_LIMIT_S = 30.0


@pytest.fixture(scope="module")
def torch_server() -> Iterator[Server]:
    """The store needs torch, and the switch pyroute2, which take seconds to load."""
    with ServerPool(preload=("torch", "torch.distributed", "chaoskit.hosts.switch")) as pool:
        pool.server().wait_ready()
        yield pool.server()


@pytest.fixture
def begin(start: Callable[..., Any], torch_server: Server) -> Begin:
    return lambda target="wait", plan="plan_on_hosts": start(target, ranks=3, plan=plan, on=torch_server)


def child(arm: Any, name: str) -> int:
    """Return the pid of the warden's child that is called so."""
    names = {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in kernel.children(arm.arm.pid)}
    return names[f"chaoskit-{name}"]


def reasons(events: Any, guard: str) -> dict[int, tuple[int, str]]:
    """The first signal that each slot got from that guard, and why."""
    found: dict[int, tuple[int, str]] = {}
    for event in events.all(Signalled):
        if event.guard == guard:
            found.setdefault(event.slot, (event.signal, event.reason))
    return found


def test_ranks_reach_the_store_by_its_name_and_everything_ends_with_them(begin: Begin) -> None:
    arm = begin("connect_to_store")
    events = arm.finish()
    assert {e.slot: e.exit_code for e in events.all(Ended)} == dict.fromkeys(range(3), 0)
    assert [arm.output(slot) for slot in range(3)] == ["hostA\n", "hostA\n", "hostB\n"]
    assert events.all(Leftover) == events.all(Malfunction) == events.all(Signalled) == []
    assert [p.name for p in arm.folder.glob("*.log")] == []  # nobody had anything to say


def test_the_end_of_the_store_ends_the_job_at_once(begin: Begin) -> None:
    arm = begin()
    arm.until(Started, 3)
    os.kill(child(arm, "store"), signal.SIGKILL)
    events = arm.finish()
    why = (signal.SIGTERM, "the store on host store was ended by SIGKILL")
    assert reasons(events, "store_outside") == dict.fromkeys(range(3), why)
    assert events.all(Leftover) == events.all(Malfunction) == []


def test_a_store_that_is_stopped_ends_the_job_after_the_wait(begin: Begin) -> None:
    arm = begin(plan="plan_on_hosts_with_an_impatient_store")
    arm.until(Started, 3)
    os.kill(child(arm, "store"), signal.SIGSTOP)
    events = arm.finish()
    why = (signal.SIGTERM, "the store on host store has been stopped for 0.2 s")
    assert reasons(events, "store_outside") == dict.fromkeys(range(3), why)


def test_of_a_store_on_a_crashed_host_nobody_learns_before_it_has_been_silent(begin: Begin) -> None:
    arm = begin("order_crash_of_the_store")
    events = arm.finish()
    why = (signal.SIGTERM, "the store on host store has not answered for 3 s: it was ended by SIGKILL")
    assert reasons(events, "store_outside") == dict.fromkeys(range(3), why)


def test_of_ranks_on_a_crashed_host_too(begin: Begin) -> None:
    events = begin("order_crash").finish()
    why = (signal.SIGKILL, "hostB has not answered for 3 s")
    assert reasons(events, "group_kill") == {0: why, 1: why}  # slot 2 is gone
    assert {e.slot: e.by for e in events.all(Ended)} == {0: "launcher", 1: "launcher", 2: ""}


def test_a_frozen_host_is_taken_away_with_its_ranks(begin: Begin) -> None:
    events = begin("order_freeze").finish()
    assert [(e.slot, e.stopped) for e in events.all(Stopped)] == [(2, True)]
    why = (signal.SIGKILL, "hostB has not answered for 3 s")
    assert reasons(events, "group_kill") == dict.fromkeys(range(3), why)


def test_a_host_that_thaws_is_forgiven_though_no_rank_is_left_on_it(begin: Begin) -> None:
    events = begin("order_short_freeze").finish()
    assert {e.slot: e.exit_code for e in events.all(Ended)} == dict.fromkeys(range(3), 0)
    assert events.all(Signalled) == []


def test_a_rebooted_host_tells_that_its_ranks_are_gone(begin: Begin) -> None:
    events = begin("order_reboot").finish()
    why = (signal.SIGKILL, "process 2 was ended by SIGKILL")
    assert reasons(events, "group_kill") == {0: why, 1: why}
    assert {e.slot: e.by for e in events.all(Ended)} == {0: "launcher", 1: "launcher", 2: ""}


def test_a_switch_that_ends_while_it_builds_is_told_in_one_line(begin: Begin) -> None:
    arm = begin(plan="plan_on_hosts_with_a_switch_that_ends")
    (told,) = arm.finish().all(Malfunction)
    assert told.message == (
        "the network of the virtual hosts could not be built: its switch gave no sign of life; see switch.log"
    )


def test_a_network_that_cannot_be_built_is_told_in_one_line(begin: Begin) -> None:
    arm = begin(plan="plan_on_hosts_that_cannot_be")
    (told,) = arm.finish().all(Malfunction)
    assert told.message.startswith("the network of the virtual hosts could not be built: ")
    assert told.message.endswith("; see switch.log")
    assert "\n" not in told.message
    assert "Traceback" in (arm.folder / "switch.log").read_text()


def test_the_end_of_the_switch_is_a_malfunction(begin: Begin) -> None:
    arm = begin()
    arm.until(Started, 3)
    os.kill(child(arm, "switch"), signal.SIGKILL)
    told = arm.until(Malfunction)
    assert told.message == "the switch of the virtual hosts was ended by SIGKILL; see switch.log"
    assert arm.close()


@pytest.mark.parametrize("victim", ["warden", "runner"])
def test_a_kill_leaves_no_process_and_no_namespace(begin: Begin, victim: str) -> None:
    """The namespaces have no name: they are there as long as somebody is in them or holds them."""
    arm = begin()
    arm.until(Started, 3)
    below = sweep.descendants(arm.arm.pid)
    watched = [os.pidfd_open(pid) for pid in (*below, arm.arm.pid)]
    networks = {namespaces.network_of(pid) for pid in below} - {namespaces.network_of(os.getpid())}
    assert len(networks) >= 3  # two hosts and that of the store
    if victim == "warden":
        os.kill(arm.arm.pid, signal.SIGKILL)
    else:
        arm.arm.connection.close()  # what the kernel does for a runner that is killed
    for pidfd in watched:
        assert select.select([pidfd], [], [], GONE_LIMIT_S)[0]
        os.close(pidfd)
    # Not of all processes of the machine: another run may have got the numbers that are free again.
    there = {namespaces.network_of(pid) for pid in sweep.descendants(os.getppid())}
    assert not networks & there
