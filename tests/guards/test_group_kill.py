"""The launcher's policy: values in, values out."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.guards.group_kill import GroupKill, GroupKillPolicy, Kill

STRICT = GroupKill(on_early_exit=True, early_exit_wait_s=5, on_stopped=True, stopped_wait_s=7, grace_s=2)


def sent(policy: GroupKillPolicy, t: float) -> list[tuple[int | None, int]]:
    return [(kill.slot, kill.signal) for kill in policy.due(t)]


def test_failure_ends_all_at_once_and_kills_after_the_grace() -> None:
    policy = GroupKill(grace_s=2).policy(4)
    policy.on_end(1, -9, False, 10.0)
    assert policy.due(10.0) == [Kill(None, signal.SIGTERM, "process 1 was ended by SIGKILL")]
    assert policy.next_due() == 12.0
    assert sent(policy, 11.9) == []
    assert sent(policy, 12.0) == [(None, signal.SIGKILL)]
    assert policy.next_due() is None
    assert policy.triggered


def test_first_failure_is_the_reason() -> None:
    policy = GroupKill().policy(4)
    policy.on_end(1, 3, False, 1.0)
    policy.on_end(2, -15, False, 1.1)
    assert [kill.reason for kill in policy.due(1.2)] == ["process 1 ended with exit code 3"]


def test_sigkill_needs_no_grace() -> None:
    policy = GroupKill(signal="SIGKILL").policy(2)
    policy.on_end(0, 1, False, 1.0)
    assert sent(policy, 1.0) == [(None, signal.SIGKILL)]
    assert policy.next_due() is None


def test_a_launcher_that_polls_reacts_at_its_next_look() -> None:
    policy = GroupKill(poll_s=0.1).policy(2)
    policy.on_end(0, 1, False, 1.04)
    assert sent(policy, 1.05) == []
    assert policy.next_due() == pytest.approx(1.1)
    assert sent(policy, policy.next_due() or 0) == [(None, signal.SIGTERM)]


def test_clean_ends_are_left_alone() -> None:
    policy = STRICT.policy(2)
    policy.on_end(0, 0, True, 1.0)
    assert policy.next_due() is None
    assert not policy.due(1000.0)
    assert not policy.triggered


def test_early_exit_is_given_its_wait() -> None:
    policy = STRICT.policy(3)
    policy.on_end(2, 0, False, 1.0)
    assert policy.next_due() == 6.0
    assert sent(policy, 5.9) == []
    kills = policy.due(6.0)
    assert [(kill.slot, kill.signal) for kill in kills] == [(None, signal.SIGTERM)]
    assert "process 2 left with exit 0 before its work was done" in kills[0].reason


def test_rules_that_are_off_do_nothing() -> None:
    policy = GroupKill(on_failure=False).policy(3)
    policy.on_end(2, 0, False, 1.0)
    policy.on_end(1, 1, False, 1.0)
    policy.on_stop(0, 1.0)
    assert policy.next_due() is None


def test_a_stopped_rank_gets_sigkill_and_the_others_sigterm() -> None:
    policy = STRICT.policy(3)
    policy.on_stop(1, 1.0)
    assert sent(policy, 7.9) == []
    assert sent(policy, 8.0) == [(1, signal.SIGKILL), (None, signal.SIGTERM)]


def test_a_rank_that_goes_on_is_forgiven() -> None:
    policy = STRICT.policy(3)
    policy.on_stop(1, 1.0)
    policy.on_continue(1, 4.0)
    assert policy.next_due() is None


def test_a_suspended_job_is_left_alone_and_timed_anew_when_it_goes_on() -> None:
    policy = STRICT.policy(2)
    policy.on_stop(0, 1.0)
    policy.on_stop(1, 1.1)
    assert sent(policy, 100.0) == []
    policy.on_continue(0, 200.0)
    assert sent(policy, 206.0) == []
    assert sent(policy, 207.0) == [(1, signal.SIGKILL), (None, signal.SIGTERM)]


def test_failure_while_a_rank_is_stopped_kills_that_rank_at_once() -> None:
    policy = STRICT.policy(3)
    policy.on_stop(1, 1.0)
    policy.on_end(0, 1, False, 2.0)
    assert sent(policy, 2.0) == [(1, signal.SIGKILL), (None, signal.SIGTERM)]


def test_a_rank_stopped_after_the_decision_is_killed_at_once() -> None:
    policy = STRICT.policy(3)
    policy.on_end(0, 1, False, 2.0)
    policy.due(2.0)
    policy.on_stop(1, 2.1)
    assert sent(policy, 2.1) == [(1, signal.SIGKILL)]


SILENT = GroupKill(signal="SIGKILL", host_silent_s=9)


def test_a_silent_host_is_taken_away_and_the_job_ended() -> None:
    policy = GroupKill(host_silent_s=9, grace_s=2).policy(4)
    policy.on_host_lost("hostB", (2, 3), 1.0)
    assert policy.next_due() == 10.0
    assert sent(policy, 9.9) == []
    why = "hostB has not answered for 9 s"
    assert policy.due(10.0) == [
        Kill(2, signal.SIGKILL, why, fence=True),
        Kill(3, signal.SIGKILL, why, fence=True),
        Kill(None, signal.SIGTERM, why),
    ]
    assert sent(policy, 12.0) == [(None, signal.SIGKILL)]
    assert policy.next_due() is None


def test_a_host_that_answers_again_in_time_is_forgiven() -> None:
    policy = SILENT.policy(4)
    policy.on_host_lost("hostB", (2, 3), 1.0)
    policy.on_host_back("hostB", 9.0)
    assert policy.next_due() is None


def test_a_silent_host_is_waited_for_though_the_others_were_ended() -> None:
    policy = SILENT.policy(4)
    policy.on_host_lost("hostB", (2, 3), 1.0)
    policy.on_end(0, 82, False, 4.0)
    assert sent(policy, 4.0) == [(None, signal.SIGKILL)]
    assert policy.next_due() == 10.0
    assert sent(policy, 10.0) == [(2, signal.SIGKILL), (3, signal.SIGKILL)]


def test_a_host_lost_after_the_decision_is_waited_for_as_long() -> None:
    policy = SILENT.policy(4)
    policy.on_end(0, 82, False, 4.0)
    policy.due(4.0)
    policy.on_host_lost("hostB", (2, 3), 5.0)
    assert policy.next_due() == 14.0


def test_a_host_that_answers_again_learns_of_the_decision() -> None:
    policy = SILENT.policy(4)
    policy.on_host_lost("hostB", (2, 3), 1.0)
    policy.on_end(0, 82, False, 4.0)
    policy.due(4.0)
    policy.on_host_back("hostB", 6.0)
    assert sent(policy, 6.0) == [(2, signal.SIGKILL), (3, signal.SIGKILL)]
    assert policy.next_due() is None


def test_a_silent_host_is_not_missed_once_its_ranks_had_done_their_work() -> None:
    for ends, due in (
        ([(2, True), (3, True)], None),
        ([(2, True), (3, False)], 10.0),
        ([(2, True)], 10.0),
        ([], 10.0),
    ):
        policy = SILENT.policy(4)
        for slot, done in ends:
            policy.on_end(slot, 0, done, 0.5)
        policy.on_host_lost("hostB", (2, 3), 1.0)
        assert policy.next_due() == due, ends


def test_of_a_rebooted_host_its_ranks_ends_are_told_late() -> None:
    policy = SILENT.policy(4)
    policy.on_host_lost("hostB", (2, 3), 1.0)
    policy.on_host_back("hostB", 3.0)
    policy.on_end(2, -9, False, 3.0)
    assert policy.due(3.0) == [Kill(None, signal.SIGKILL, "process 2 was ended by SIGKILL")]


def test_hosts_without_ranks_and_rules_that_are_off_do_nothing() -> None:
    policy = SILENT.policy(2)
    policy.on_host_lost("store", (), 1.0)
    assert policy.next_due() is None
    policy = GroupKill().policy(2)
    policy.on_host_lost("hostB", (1,), 1.0)
    policy.on_host_back("hostB", 2.0)
    assert policy.next_due() is None


def test_a_wrong_signal_name_is_refused() -> None:
    with pytest.raises(ValueError, match="SIGFOO"):
        GroupKill(signal="SIGFOO")


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["end", "stop", "continue", "lost", "back"]),
        st.integers(0, 3),
        st.sampled_from([0, 1, -9]),
        st.booleans(),
        st.floats(0, 3),
    ),
    max_size=12,
)


@given(EVENTS, st.booleans(), st.booleans(), st.booleans())
def test_whatever_happens(
    events: list[tuple[str, int, int, bool, float]], failure: bool, early: bool, stopped: bool
) -> None:
    """A decision ends in SIGKILL for all, once; no decision without a cause; nothing to nobody, and behind a
    fence only what is on a host that has long been silent."""
    rule = GroupKill(failure, early, 2.0, stopped, 2.0, grace_s=1.0, host_silent_s=3.0 if stopped else None)
    policy = rule.policy(4)
    now, ended, kills = 0.0, set[int](), list[Kill]()
    failed = False
    for kind, slot, code, done, pause in events:
        now += pause
        if slot in ended:
            continue
        if kind == "end":
            ended.add(slot)
            failed |= code != 0
            policy.on_end(slot, code, done, now)
        elif kind == "stop":
            policy.on_stop(slot, now)
        elif kind == "lost":
            policy.on_host_lost(f"host{slot}", (slot,), now)
        elif kind == "back":
            policy.on_host_back(f"host{slot}", now)
        else:
            policy.on_continue(slot, now)
        kills += policy.due(now)
        assert policy.triggered or not kills
    while (due := policy.next_due()) is not None and due < now + 100:
        now = max(now, due)
        kills += policy.due(now)
    to_all = [kill.signal for kill in kills if kill.slot is None]
    assert to_all in ([], [signal.SIGTERM, signal.SIGKILL])
    assert bool(to_all) == policy.triggered
    if failed and failure:
        assert to_all
    if not (failure or early or stopped):
        assert not kills
