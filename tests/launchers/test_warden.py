"""The warden sees and reports what its ranks do, and leaves nothing, whatever they do."""

from __future__ import annotations

import ast
import os
import select
import signal
from collections.abc import Callable
from typing import Any

import pytest

from chaoskit.history import ArmEnded, ArmStarted, Ended, Leftover, Malfunction, Signalled, Started, Stopped
from chaoskit.launchers import kernel, output, sweep

pytestmark = pytest.mark.timeout(300)
Start = Callable[..., Any]


def ends(events: Any) -> dict[int, tuple[int, str]]:
    return {e.slot: (e.exit_code, e.by) for e in events.all(Ended)}


def test_an_arm_that_ends_by_itself(start: Start) -> None:
    arm = start("finish", ranks=3)
    events = arm.finish()
    assert [type(e) for e in events.events[:1]] == [ArmStarted]
    assert [type(e) for e in events.events[-1:]] == [ArmEnded]
    assert events.slots == (0, 1, 2)
    assert ends(events) == dict.fromkeys(range(3), (0, ""))
    assert events.all(Leftover) == []
    assert arm.output(2) == "slot 2 here\n"
    assert arm.output(2, "stderr") == "slot 2 complains\n"


def test_a_rank_is_a_fresh_process(start: Start) -> None:
    arm = start("show_process")
    arm.finish()
    shown = ast.literal_eval(arm.output(0))
    given = shown.pop("given")
    assert [fd for fd in shown.pop("fds") if fd > 2] == given
    if shown["interfaces"] != ["lo"]:
        pytest.skip("no network namespaces here")
    assert shown == {
        "session": True, "stdin": os.devnull, "sigint": True, "sigterm": True, "sigchld": True, "blocked": [],
        "interfaces": ["lo"], "main": None, "dir": os.getcwd(), "name": "rank 0", "variable": None,
        "prepared": None,
    }  # fmt: skip


def test_arms_side_by_side_do_not_meet_on_a_port(start: Start) -> None:
    arms = [start("connect_to_slot_0") for _ in range(3)]
    found = [arm.finish() for arm in arms]
    if not found[0].all(ArmStarted)[0].isolated:
        pytest.skip("no network namespaces here")
    assert [ends(events) for events in found] == [{0: (0, "")}] * 3


def test_without_isolation_the_network_is_ours(start: Start) -> None:
    arm = start("show_process", isolate=False)
    assert not arm.finish().all(ArmStarted)[0].isolated
    assert set(ast.literal_eval(arm.output(0))["interfaces"]) >= {"lo"}


def test_the_supervisor_ends_an_arm(start: Start) -> None:
    arm = start("wait", ranks=4)
    arm.until(Started, 4)
    arm.arm.end()
    events = arm.finish()
    assert ends(events) == dict.fromkeys(range(4), (-signal.SIGKILL, "supervisor"))


def test_a_rank_that_ends_by_a_signal_of_nobody_of_ours(start: Start) -> None:
    assert ends(start("die_by_own_sigkill").finish()) == {0: (-signal.SIGKILL, "")}


def test_a_death_and_a_stop_release_holders(start: Start) -> None:
    dying, stopping = start("fail_one", ranks=2), start("stop_itself", ranks=2)
    dying.until(Ended)
    stopped = stopping.until(Stopped)
    assert (stopped.slot, stopped.stopped) == (1, True)
    for arm in (dying, stopping):
        assert select.select([arm.release], [], [], 30)[0]  # a stop is told first
        assert os.eventfd_read(arm.release) >= 1
        arm.arm.end()
        arm.finish()


def test_a_stopped_rank_goes_on(start: Start) -> None:
    arm = start("stop_itself", ranks=2)
    arm.until(Stopped)
    os.kill(next(e.pid for e in arm.events if isinstance(e, Started) and e.slot == 1), signal.SIGCONT)
    assert not arm.until(Stopped, 2).stopped
    arm.arm.end()
    assert arm.finish().all(Ended)


def test_without_a_guard_nobody_is_protected(start: Start) -> None:
    arm = start("fail_one", ranks=3)
    arm.until(Started, 3)  # the second may have ended before the third began
    assert arm.until(Ended).slot == 1
    assert not arm.arm.connection.poll(0.3)
    arm.arm.end()
    assert ends(arm.finish())[0] == (-signal.SIGKILL, "supervisor")


def test_group_kill_ends_the_others(start: Start) -> None:
    events = start("fail_one", ranks=3, plan="plan_kill_at_once").finish()
    assert ends(events) == {0: (-9, "launcher"), 1: (3, ""), 2: (-9, "launcher")}
    sent = {(e.slot, e.signal, e.guard) for e in events.all(Signalled)}
    assert sent == {(0, 9, "group_kill"), (2, 9, "group_kill")}
    assert "process 1 ended with exit code 3" in events.all(Signalled)[0].reason


def test_group_kill_with_ranks_that_swallow_sigterm(start: Start) -> None:
    events = start("swallow_sigterm", ranks=3, plan="plan_sigterm_first").finish()
    assert [e.signal for e in events.all(Signalled) if e.slot == 0] == [signal.SIGTERM, signal.SIGKILL]
    assert ends(events) == {0: (-9, "launcher"), 1: (3, ""), 2: (-9, "launcher")}


def test_group_kill_on_a_stopped_rank(start: Start) -> None:
    events = start("stop_itself", ranks=3, plan="plan_on_stopped").finish()
    assert set(ends(events).values()) == {(-9, "launcher")}


def test_a_daemon_that_outlives_all_ranks_is_named_and_ended(start: Start) -> None:
    events = start("leave_a_daemon", leftover_grace_s=0.1).finish()
    (leftover,) = events.all(Leftover)
    assert leftover.command
    assert not os.path.exists(f"/proc/{leftover.pid}")
    assert events.all(Ended)[0].exit_code == 0


def test_a_child_that_ends_within_the_grace_is_no_leftover(start: Start) -> None:
    assert start("leave_a_brief_child", ranks=2, leftover_grace_s=30.0).finish().all(Leftover) == []


def test_a_rank_that_closes_every_descriptor(start: Start) -> None:
    assert ends(start("close_everything").finish()) == {0: (5, "")}


def test_a_target_that_raises_is_printed(start: Start) -> None:
    arm = start("raise_")
    assert ends(arm.finish()) == {0: (70, "")}
    assert "LookupError: the target is broken" in arm.output(0, "stderr")


def test_a_target_that_is_not_there_is_a_malfunction(start: Start) -> None:
    events = start("nowhere").finish()
    assert "nowhere" in events.all(Malfunction)[0].message
    assert events.slots == ()


def test_gigabytes_of_output_delay_no_death(start: Start) -> None:
    arm = start("flood", ranks=2)
    arm.until(Started, 2)
    arm.wait_for_doorbell()  # 8 MiB are through, and it goes on
    os.kill(next(e.pid for e in arm.events if isinstance(e, Started) and e.slot == 1), signal.SIGKILL)
    assert arm.until(Ended).slot == 1
    arm.arm.end()
    arm.finish()
    kept = arm.output(0)
    assert len(kept) < output.HEAD_BYTES + output.TAIL_BYTES + 200
    assert "bytes of output left out here]" in kept


def test_ending_an_arm_of_nasty_ranks(start: Start) -> None:
    arm = start("nasty", ranks=4)
    arm.until(Stopped)
    below = sweep.descendants(arm.arm.pid)
    assert len(below) >= 4
    arm.arm.end()
    arm.finish()
    assert [pid for pid in below if kernel.state(pid) not in ("", "Z")] == []


def test_a_chain_of_forks_is_caught(start: Start) -> None:
    arm = start("fork_on_and_on", ranks=2)
    arm.wait_for_doorbell()
    arm.arm.end()
    arm.finish()


def test_a_runner_that_goes_away_ends_the_arm(start: Start) -> None:
    arm = start("nasty", ranks=4)
    arm.until(Stopped)
    below = sweep.descendants(arm.arm.pid)
    assert arm.close()
    assert [pid for pid in below if kernel.state(pid) not in ("", "Z")] == []


def test_a_rank_that_kills_the_warden(start: Start, server: Any) -> None:
    """Its ranks die with it; their daemons come to the server and are ended when the arm is closed."""
    arm = start("kill_the_warden", ranks=4)
    with pytest.raises((EOFError, ConnectionResetError)):
        arm.until(ArmEnded)
    assert arm.close()
    assert kernel.children(server.pid) == []


def test_a_warden_that_is_told_to_end(start: Start) -> None:
    events = start("order_the_warden_to_end").finish()
    assert "SIGTERM" in events.all(Malfunction)[0].message
    assert events.all(Ended)[0].by == "supervisor"


def test_a_warden_that_is_stopped(start: Start) -> None:
    arm = start("stop_the_warden", ranks=2)
    arm.wait_for_doorbell()
    below = sweep.descendants(arm.arm.pid)
    assert arm.arm.close(warden_limit_s=0.2)
    assert [pid for pid in below if kernel.state(pid) not in ("", "Z")] == []


def test_many_arms_at_once(start: Start) -> None:
    arms = [start("finish", ranks=2) for _ in range(8)]
    assert all(ends(arm.finish()) == {0: (0, ""), 1: (0, "")} for arm in arms)


def test_what_a_fault_prepared_is_cleaned_up(start: Start) -> None:
    arm = start("show_process", plan="plan_prepared")
    arm.finish()
    assert ast.literal_eval(arm.output(0))["prepared"] == str(arm.arm.pid)
    assert (arm.folder / "undone").read_text() == "cleaned up"


def test_what_a_fault_counted_tells_of_the_kernel(start: Start) -> None:
    events = start("die_by_own_sigkill", ranks=2, plan="plan_prepared").finish()
    assert [e.oom_kill for e in events.all(Ended)] == [True, False]


def test_a_fault_that_cannot_prepare_is_a_malfunction(start: Start) -> None:
    arm = start("finish", plan="plan_that_cannot_be_prepared")
    events = arm.finish()
    assert "cannot prepare" in events.all(Malfunction)[0].message
    assert events.slots == ()
    assert (arm.folder / "undone").read_text() == "cleaned up"


def test_the_sentinel_tells_of_the_wardens_end(start: Start) -> None:
    arm = start("wait")
    arm.until(Started)
    assert not select.select([arm.arm.sentinel], [], [], 0)[0]
    os.kill(arm.arm.pid, signal.SIGKILL)
    assert select.select([arm.arm.sentinel], [], [], 30)[0]
