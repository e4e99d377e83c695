"""Blame from hand-made histories: one test for each way to be guilty, and for each way to look it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.history import Signalled
from chaoskit.judge import blame
from chaoskit.model import Culprit, Kind


def rank(*ids: int) -> tuple[Culprit, ...]:
    return tuple(Culprit("rank", str(i)) for i in ids)


def told(story: Story) -> tuple[tuple[Culprit, ...], Kind | None, bool]:
    found = blame.find(story.history)
    return found.culprits, found.kind, found.ambiguous


def test_a_rank_ended_by_a_signal_nobody_sent_is_the_culprit_not_those_who_lost_it() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.end(1, -9)
    for slot in (0, 2, 3):
        story.victim(slot)
    assert told(story) == (rank(1), Kind.KILLED, False)


def test_a_victim_that_is_gone_first_in_the_log_is_not_blamed() -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.victim(0)
    story.end(1, -9)
    assert told(story)[0] == rank(1)


def test_ranks_that_the_launcher_ended_are_victims() -> None:
    story = Story()
    story.everyone("init")
    story.raised(2, "own", "ValueError", "bad batch")
    story.end(2, 1)
    for slot in (0, 1, 3):
        story.end(slot, -15, "launcher")
    assert told(story) == (rank(2), Kind.EXCEPTION, False)


def test_exit_0_in_the_middle_is_guilt() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    story.end(1, 0)
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
        story.victim(slot)
    assert told(story) == (rank(1), Kind.LEFT_EARLY, False)


def test_a_rank_that_missed_a_barrier_and_finished_with_0_is_blamed() -> None:
    """pytorch#138322: the others sit in the second barrier, the guilty rank has ended 0."""
    story = Story()
    story.everyone("init")
    story.everyone("barrier", but=())
    for slot in (0, 1, 2):
        story.enter(slot, "barrier")
    story.finish(3)
    for slot in (0, 1, 2):
        story.victim(slot)
    assert told(story)[0] == rank(3)


def test_a_stopped_rank_is_frozen() -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.stop(1)
    for slot in (0, 2, 3):
        story.fail(slot, "Timed out")
        story.raised(slot, "timeout")
        story.end(slot, 1)
    story.end(1, -9, "supervisor")
    assert told(story) == (rank(1), Kind.FROZEN, False)


def test_a_rank_that_never_came_is_named() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    story.still(0, 1, 2, 3)
    story.deadline(0, 1, 2, 3)
    assert told(story) == (rank(1), Kind.NEVER_ENTERED, False)


def test_a_skipped_barrier_is_other_collective_with_the_majority_right() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    for slot in (1, 2, 3):
        story.enter(slot, "barrier")
    story.enter(0, "all_reduce")
    story.still(0, 1, 2, 3)
    story.deadline(0, 1, 2, 3)
    found = blame.find(story.history)
    assert (found.culprits, found.kind) == (rank(0), Kind.OTHER_COLLECTIVE)


def test_two_ranks_that_differ_are_ambiguous() -> None:
    story = Story(size=2)
    story.everyone("init", "all_reduce")
    story.enter(0, "barrier")
    story.enter(1, "all_reduce")
    story.deadline(0, 1)
    assert told(story) == (rank(0, 1), Kind.OTHER_COLLECTIVE, True)


def test_the_innocent_rank_that_aborts_on_a_shape_is_not_blamed() -> None:
    story = Story()
    story.everyone("init")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce", shape="[8]", dtype="float32")
    story.enter(1, "all_reduce", fingerprint=99, shape="[4]", dtype="float32")
    story.end(0, -6)
    for slot in (1, 2, 3):
        story.victim(slot)
    assert told(story) == (rank(1), Kind.OTHER_SHAPE, False)


def test_silent_garbage_is_found_by_its_dtype() -> None:
    story = Story()
    story.everyone("init")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce", shape="[8]", dtype="float32")
    story.enter(1, "all_reduce", fingerprint=99, shape="[8]", dtype="int32")
    for slot in range(4):
        story.complete(slot)
    story.finish(0, 1, 2, 3, result=1.0)
    assert told(story) == (rank(1), Kind.OTHER_DTYPE, False)


def test_a_clear_death_wins_over_a_difference_that_did_no_harm() -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "all_gather", fingerprint=5 if slot else 6)
    for slot in range(4):
        story.complete(slot)
    story.everyone("barrier")
    story.end(2, -9)
    for slot in (0, 1, 3):
        story.enter(slot, "all_reduce")
        story.victim(slot)
    assert told(story)[0] == rank(2)


def test_what_a_rank_enters_after_its_own_failure_is_consequence() -> None:
    """``finally: barrier()`` on the survivors does not make them culprits."""
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.end(1, -9)
    for slot in (0, 2):
        story.fail(slot)
        story.enter(slot, "barrier")
        story.victim(slot)
    story.victim(3)
    assert told(story)[0] == rank(1)


def test_who_waits_elsewhere_is_not_the_root() -> None:
    story = Story()
    story.everyone("init")
    for slot in (0, 1):
        story.enter(slot, "all_reduce", group="a", members=(0, 1, 2))
    story.enter(2, "all_reduce", group="b", members=(2, 3))
    story.deadline(0, 1, 2, 3)
    assert told(story)[0] == rank(3)


def test_one_collective_too_many_at_the_end() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    story.enter(2, "all_reduce")
    story.finish(0, 1, 3)
    story.victim(2)
    assert told(story) == (rank(2), Kind.OTHER_COLLECTIVE, False)


def test_a_rank_that_came_too_late_to_init() -> None:
    story = Story()
    for slot in (0, 1, 2):
        story.enter(slot, "init")
    for slot in (0, 1, 2):
        story.fail(slot, "timed out")
        story.raised(slot, "timeout")
        story.end(slot, 1)
    story.enter(3, "init")
    story.end(3, -9, "launcher")
    assert told(story) == (rank(3), Kind.LATE, False)


def test_a_duplicate_rank_and_a_missing_one() -> None:
    story = Story(size=4)
    story.events = [e for e in story.events if not (type(e).__name__ == "Identity" and e.slot == 2)]
    from chaoskit.history import Identity

    story.add(Identity(100.5, 2, 1, 2, 4, "host", 1002, "test", "2"))
    story.deadline(0, 1, 2, 3)
    assert told(story)[:2] == (rank(1), Kind.CONFIGURATION)


def test_an_own_error_raised_because_of_a_lost_peer_is_no_cause() -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.end(3, -9)
    story.fail(0)
    story.raised(0, "peer_lost", "ValueError", "wrapped")
    story.end(0, 1)
    story.victim(1)
    story.victim(2)
    assert told(story)[0] == rank(3)


def test_an_abort_after_the_work_is_its_own_kind() -> None:
    story = Story(size=2)
    story.everyone("init")
    story.finish(0)
    story.events = [e for e in story.events if type(e).__name__ != "Ended"]
    story.finish(1)
    story.end(0, -6)
    assert told(story) == ((), Kind.ABORT_AT_TEARDOWN, False)


def test_nobody_is_named_without_evidence() -> None:
    story = Story()
    assert told(story) == ((), Kind.UNKNOWN, False)


@given(st.permutations([0, 1, 2, 3]), st.sampled_from(["killed", "raised", "stopped", "skipped", "absent"]))
def test_renaming_the_ranks_renames_the_culprit(order: list[int], how: str) -> None:
    """Blame knows no favourite rank: the same story with other numbers names the same actor."""
    guilty, *others = order
    story = Story()
    story.everyone("init", "all_reduce")
    if how == "skipped":
        story.enter(guilty, "all_reduce")
        for slot in others:
            story.enter(slot, "barrier")
    else:
        for slot in others:
            story.enter(slot, "barrier")
    if how == "killed":
        story.end(guilty, -9)
    elif how == "raised":
        story.raised(guilty, "own")
        story.end(guilty, 1)
    elif how == "stopped":
        story.stop(guilty)
    for slot in others:
        story.fail(slot)
        story.raised(slot, "timeout")
        story.end(slot, 1)
    if how in ("stopped", "skipped", "absent"):
        story.end(guilty, -9, "supervisor")
    assert blame.find(story.history).culprits == rank(guilty)


@pytest.mark.parametrize("victims_first", [True, False])
def test_the_plan_and_the_injection_are_not_seen(victims_first: bool) -> None:
    """A falsified injection event changes nothing."""
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.inject(3 if victims_first else 0)
    story.end(1, -9)
    for slot in (0, 2, 3):
        story.victim(slot)
    assert told(story)[0] == rank(1)


# ---------------------------------------------------------------- found by attacking blame with random faults


def test_a_rank_that_its_sigterm_guard_ended_in_a_moving_job_is_the_culprit() -> None:
    """Its peers wait for it, and a slower one may never have come where the others are: both are victims."""
    story = Story()
    story.everyone("init", "all_reduce", "all_reduce")
    story.enter(0, "all_reduce")
    story.fired(1, "sigterm_exit", 143)
    story.end(1, 143)
    story.enter(3, "all_reduce")
    for slot in (0, 2, 3):
        story.end(slot, -15, "launcher")
    assert told(story) == (rank(1), Kind.KILLED, False)


def test_a_rank_that_its_sigterm_guard_freed_from_a_standstill_is_not() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    story.tick(2.0)
    story.fired(0, "sigterm_exit", 143)
    story.end(0, 143)
    for slot in (1, 2, 3):
        story.end(slot, -15, "launcher")
    assert told(story) == (rank(1), Kind.NEVER_ENTERED, False)


def test_ranks_missing_in_different_operations_are_ambiguous_at_the_least() -> None:
    """One of them may only have been slower when the job was ended."""
    story = Story()
    story.everyone("init")
    story.enter(0, "all_reduce", group="left", members=(0, 1))
    story.enter(3, "broadcast", group="right", members=(2, 3))
    for slot in range(4):
        story.end(slot, -15, "launcher")
    culprits, _, ambiguous = told(story)
    assert culprits == rank(1, 2) and ambiguous


def test_who_loses_a_peer_in_an_operation_that_all_entered_is_no_root() -> None:
    story = Story()
    story.everyone("init")
    for slot in (0, 1):
        story.enter(slot, "all_reduce", group="left", members=(0, 1))
    story.victim(0)
    for slot in (2, 3):
        story.enter(slot, "barrier")
    story.end(1, 1)
    for slot in (2, 3):
        story.end(slot, -15, "launcher")
    assert told(story)[0] == rank(1)


def test_ranks_that_were_only_slower_to_init_than_a_failing_one_are_not_late() -> None:
    story = Story()
    story.enter(1, "init")
    story.fail(1, "gloo: rank >= 0. -1 vs 0")
    story.raised(1, "configuration", "RuntimeError", "rank >= 0. -1 vs 0")
    story.end(1, 1)
    for slot in (0, 2, 3):
        story.enter(slot, "init")
        story.end(slot, -9, "supervisor")
    assert told(story)[:2] == (rank(1), Kind.CONFIGURATION)


def test_a_rank_that_answered_its_launchers_sigterm_is_a_victim() -> None:
    """Its own guard ended it, with the code of a SIGTERM, but the launcher had sent that."""
    story = Story()
    story.everyone("init", "all_reduce")
    for slot in (0, 2, 3):
        story.enter(slot, "barrier")
    story.enter(1, "broadcast")
    story.fired(2, "collective_check", 87)
    story.end(2, 87)
    story.add(Signalled(story.tick(), 0, 15, "group_kill", "process 2 ended"))
    story.fired(0, "sigterm_exit", 143)
    story.end(0, 143)
    story.end(1, -15, "launcher")
    story.end(3, -15, "launcher")
    assert told(story)[0] == rank(1)
    quiet = Story()
    quiet.everyone("init", "all_reduce")
    quiet.fired(2, "fail_fast", 82)
    quiet.end(2, 82)
    quiet.add(Signalled(quiet.tick(), 0, 15, "group_kill", "process 2 ended"))
    quiet.fired(0, "sigterm_exit", 143)
    quiet.end(0, 143)
    assert Culprit("rank", "0") not in blame.find(quiet.history).culprits


def test_a_rank_that_waits_in_recv_for_a_message_that_was_never_sent_is_not_blamed() -> None:
    """Rank 1 left out a send. Who sends to whom is not recorded, so nobody can be named."""
    story = Story()
    story.everyone("init")
    for slot in (0, 1):
        story.enter(slot, "barrier")
    for slot in (2, 3):
        story.enter(slot, "recv")
    story.still(0, 1, 2, 3)
    story.deadline(0, 1, 2, 3)
    found = blame.find(story.history)
    assert (found.culprits, found.kind) == ((), Kind.UNKNOWN)
    assert "rank 2 in recv #1 from anyone; rank 3 in recv #1 from anyone" in found.reason


def test_rows_of_a_mesh_with_one_name_are_each_looked_at() -> None:
    """Ranks 0 and 2 are one row, 1, 3 and 5 the other, in which rank 5 differs."""
    story = Story(size=6)
    story.everyone("init")
    for slot in (0, 2, 4, 1, 3, 5):
        row = (0, 2, 4) if slot % 2 == 0 else (1, 3, 5)
        op = "broadcast" if slot == 5 else "all_reduce"
        story.enter(slot, op, group="tp", members=row)
    story.still(*range(6))
    story.deadline(*range(6))
    assert told(story) == (rank(5), Kind.OTHER_COLLECTIVE, False)
