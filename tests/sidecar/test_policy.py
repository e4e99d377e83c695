"""The sidecar's rules, without any process."""

from __future__ import annotations

import signal

import pytest

from chaoskit.sidecar.policy import JobPolicy, Limits, Lost, RankPolicy, Seen, ended_how

LIMITS = Limits(
    early_exit_wait_s=20, stopped_wait_s=30, gil_wait_s=60, progress_wait_s=100, sigterm_wait_s=15
)


def job_of(ranks: int, limits: Limits = LIMITS) -> JobPolicy:
    job = JobPolicy(limits)
    for rank in range(ranks):
        job.joined(rank)
    return job


@pytest.mark.parametrize("code", [1, 82, -signal.SIGKILL])
def test_a_rank_that_fails_ends_the_job_at_once(code: int) -> None:
    job = job_of(3)
    assert job.verdict(0) is None
    job.ended(2, code, work_done=False, told=False, t=1)
    assert job.verdict(1) == Lost(2, ended_how(code))


def test_the_first_loss_is_the_one_that_is_told() -> None:
    job = job_of(3)
    job.lost(1, "is gone")
    job.ended(2, 1, work_done=False, told=False, t=1)
    assert job.verdict(1) == Lost(1, "is gone")


def test_without_on_failure_a_failed_rank_is_left_to_the_launcher() -> None:
    job = job_of(2, Limits(on_failure=False))
    job.ended(1, 1, work_done=False, told=False, t=1)
    assert job.verdict(1000) is None


@pytest.mark.parametrize("code", [143, 0])
def test_a_rank_that_was_told_to_end_gives_the_others_time(code: int) -> None:
    job = job_of(2)
    job.ended(1, code, work_done=False, told=True, t=1)
    assert job.verdict(15.9) is None
    assert job.next_due() == 16
    lost = job.verdict(16)
    assert lost == Lost(1, f"ended with exit code {code} after it was told to end, 15 s ago")


def test_an_early_exit_ends_the_job_after_its_wait() -> None:
    job = job_of(2)
    job.ended(1, 0, work_done=False, told=False, t=1)
    assert job.verdict(20.9) is None
    lost = job.verdict(21)
    assert lost is not None
    assert "left with exit 0 before its work was done" in lost.why


@pytest.mark.parametrize(("done", "wait_s"), [(True, 20), (False, 0), (False, None)])
def test_an_end_with_work_done_or_the_rule_off_is_healthy(done: bool, wait_s: float | None) -> None:
    job = job_of(2, Limits(early_exit_wait_s=wait_s))
    job.ended(1, 0, work_done=done, told=False, t=1)
    assert job.verdict(1000) is None


def test_an_early_exit_harms_nobody_once_the_others_have_ended_too() -> None:
    job = job_of(2)
    job.ended(1, 0, work_done=False, told=False, t=1)
    job.ended(0, 0, work_done=True, told=False, t=5)
    assert job.verdict(1000) is None


def test_one_stopped_rank_is_lost_after_its_wait() -> None:
    job = job_of(3)
    job.stopped(1, 10)
    job.stopped(1, 20)  # stopped again, e.g. by a debugger
    assert job.verdict(39.9) is None
    assert job.verdict(40) == Lost(1, "has been stopped for 30 s")


def test_a_rank_that_goes_on_in_time_is_healthy() -> None:
    job = job_of(2)
    job.stopped(1, 10)
    job.continued(1, 39)
    assert job.verdict(1000) is None


def test_a_job_stopped_as_a_whole_is_suspended_and_left_alone() -> None:
    job = job_of(2)
    job.stopped(0, 1)
    job.stopped(1, 1)
    assert job.verdict(1000) is None
    job.continued(0, 1000)
    assert job.verdict(1029) is None, "the other one is timed from now"
    assert job.verdict(1030) is not None


def test_a_single_rank_that_is_stopped_is_a_suspended_job() -> None:
    job = job_of(1)
    job.stopped(0, 1)
    assert job.verdict(1000) is None


def test_the_last_rank_of_a_job_that_is_stopped_is_not_a_suspended_job() -> None:
    job = job_of(2)
    job.ended(0, 0, work_done=True, told=False, t=1)
    job.stopped(1, 2)
    assert job.verdict(32) is not None


def test_time_in_which_the_keeper_itself_did_not_run_counts_for_nothing() -> None:
    job = job_of(2)
    job.stopped(1, 10)
    job.postpone(3600)
    assert job.verdict(3639) is None
    assert job.verdict(3640) is not None


def watch(policy: RankPolicy, *looks: tuple[float, Seen]) -> str:
    """Return the first thing that is wrong."""
    return next((why for t, seen in looks if (why := policy.wrong(seen, t))), "")


def seen(beat: int = 0, progress: int = 0, allowed_until: float = 0, excused: bool = False) -> Seen:
    return Seen(beat, progress, allowed_until, excused)


def test_a_heartbeat_that_stops_is_a_held_gil() -> None:
    same = seen(beat=7)
    assert not watch(RankPolicy(LIMITS), (0, same), (59.9, same))
    assert "holds the GIL" in watch(RankPolicy(LIMITS), (0, same), (60, same))


@pytest.mark.parametrize(
    "look",
    [seen(), seen(beat=8), seen(beat=7, excused=True), seen(beat=7, allowed_until=1000)],
    ids=["no-beat-yet", "beats", "stopped", "declared-phase"],
)
def test_no_held_gil_where_the_rank_has_not_begun_beats_or_is_excused(look: Seen) -> None:
    assert not watch(RankPolicy(LIMITS), (0, seen(beat=look.beat and 7)), (59, look), (118, look))


def test_an_interpreter_that_ends_holds_no_gil_but_may_not_take_for_ever() -> None:
    limits = Limits(gil_wait_s=2, progress_wait_s=3)
    going, leaving = seen(beat=7, progress=3), Seen(7, 3, 0, excused=False, leaving=True)
    policy = RankPolicy(limits)
    assert not watch(policy, (0, going), (1, leaving), (59.9, leaving))
    assert watch(policy, (60, leaving)) == "began to end 60 s ago and is still there"
    assert not watch(RankPolicy(Limits(gil_wait_s=0)), (0, going), (1, leaving), (1000, leaving))


def test_after_an_excuse_the_wait_begins_anew() -> None:
    policy, beat = RankPolicy(LIMITS), seen(beat=7)
    assert not watch(policy, (0, beat), (500, seen(beat=7, excused=True)), (559, beat))
    assert watch(policy, (560, beat))


def test_no_progress_is_told_after_the_first_only() -> None:
    def moving(progress: int) -> list[tuple[float, Seen]]:
        return [(float(t), seen(beat=t + 1, progress=progress)) for t in range(102)]

    assert not watch(RankPolicy(LIMITS), *moving(0))
    assert watch(RankPolicy(LIMITS), *moving(3)) == "has made no progress for 100 s"


def test_a_sigterm_that_changes_nothing_is_told_after_its_wait() -> None:
    policy = RankPolicy(LIMITS)
    policy.told_to_end(10)
    policy.told_to_end(20)  # torchrun says it twice
    assert not watch(policy, (24.9, seen()))
    assert not watch(policy, (30, seen(allowed_until=31)))
    assert watch(policy, (31, seen(allowed_until=31))) == "got SIGTERM 15 s ago and is still there"


def test_a_suspended_machine_makes_no_rank_look_dead() -> None:
    policy, beat = RankPolicy(LIMITS), seen(beat=7)
    policy.told_to_end(0)
    assert not watch(policy, (0, beat))
    policy.postpone(1000)
    assert not watch(policy, (1010, beat))
    assert "SIGTERM" in watch(policy, (1015, beat))


def test_limits_are_never_shorter_than_a_keeper_can_tell() -> None:
    limits = Limits(gil_wait_s=0.1, silent_s=0.1).noticeable()
    assert (limits.gil_wait_s, limits.silent_s) == (2, 2)
    assert Limits(gil_wait_s=0).noticeable().gil_wait_s == 0
