"""Programs and launchers that nobody here wrote: how they end, and whom that may be blamed on."""

from __future__ import annotations

import dataclasses
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from plans import Kill, plan_of

from chaoskit.history import (
    DeadlineReached,
    Finished,
    History,
    Identity,
    LauncherEnded,
    LauncherStarted,
    Raised,
    Reaped,
    Sampled,
    Signalled,
    Started,
    Stepped,
)
from chaoskit.judge import contract
from chaoskit.model import Contract, Culprit, Kind, Launcher, Outcome, Plan, Status, Verdict, Workload

PROGRAM = Workload("train.py", kind="script", target="/tmp/train.py")
WATCHED = Contract(Outcome.COMPLETED)


def watching(launcher: Launcher = "forkserver", *, size: int = 4, **changes: object) -> Plan:
    plan = plan_of(
        size=size, workload=PROGRAM, expected_result=None, contract=WATCHED, hardened_contract=WATCHED,
        healthy=True, bound_s=None, stall_s=300.0, launcher=launcher,
    )  # fmt: skip
    return dataclasses.replace(plan, **changes)  # type: ignore[arg-type]


def watched(story: Story, launcher: Launcher = "forkserver", **changes: object) -> Verdict:
    return contract.judge(watching(launcher, size=story.size, **changes), story.history)


def launched(size: int = 4) -> Story:
    """A job that torchrun starts."""
    story = Story(size=0)
    story.size = size
    story.add(LauncherStarted(story.tick(), -1, 999))
    for slot in range(size):
        story.add(Started(story.tick(), slot, 1000 + slot))
        story.add(Identity(story.tick(), slot, slot, slot, size, "host", 1000 + slot, "torchrun", "2"))
    return story


def torchrun_ends(story: Story, code: int, said: str = "", by: str = "") -> None:
    story.add(LauncherEnded(story.tick(), -1, code, by, said))  # type: ignore[arg-type]


def rank(*ids: int) -> tuple[Culprit, ...]:
    return tuple(Culprit("rank", str(i)) for i in ids)


# ---------------------------------------------------------------- how a program ends


def test_a_program_that_never_forms_a_group_is_not_one_job() -> None:
    story = Story(size=2)
    for slot in (0, 1):
        story.add(Finished(story.tick(), slot))
        story.end(slot, 0)
    verdict = watched(story)
    assert (verdict.status, verdict.outcome) == (Status.INCONCLUSIVE, None)
    assert verdict.reason.startswith("never called init_process_group: 2 independent processes")


def test_a_fault_in_such_a_program_never_fires_and_the_reason_is_said() -> None:
    story = Story(size=2)
    for slot in (0, 1):
        story.end(slot, 0)
    fault = plan_of(Kill()).injections
    verdict = watched(story, injections=fault, healthy=False)
    assert verdict.outcome is Outcome.NOT_INJECTED
    assert "never called init_process_group" in verdict.reason


def test_how_far_it_got_names_steps_and_operations_by_group() -> None:
    story = Story(size=2)
    story.everyone("init", "all_reduce")
    for slot in (0, 1):
        story.enter(slot, "all_reduce", group="tp")
        story.complete(slot)
        story.add(Stepped(story.tick(), slot, 12))
        story.add(Finished(story.tick(), slot))
        story.end(slot, 0)
    verdict = watched(story, injections=plan_of(Kill()).injections, healthy=False)
    assert "rank 1 step 12 (all_reduce 1, all_reduce of tp 1, init 1)" in verdict.reason


@pytest.mark.parametrize(
    ("kind", "message", "site", "found"),
    [
        ("SyntaxError", "invalid syntax (train.py, line 3)", "", Kind.EXCEPTION),
        ("ModuleNotFoundError", "No module named 'flash'", "train.py:1", Kind.EXCEPTION),
        ("SystemExit", "no data left", "train.py:8", Kind.EXITED),
    ],
)
def test_what_every_rank_did_is_no_single_ranks_fault(
    kind: str, message: str, site: str, found: Kind
) -> None:
    story = Story()
    for slot in (2, 0, 3, 1):  # seconds apart, on a loaded machine
        story.add(Raised(story.tick(2.0), slot, kind, message, "own", site))
        story.end(slot, 1)
    verdict = watched(story)
    assert (verdict.status, verdict.outcome, verdict.kind) == (Status.FAIL, Outcome.FAILED, found)
    assert verdict.culprits == rank(0, 1, 2, 3)
    assert message in verdict.reason and verdict.where == site


def test_numbers_of_ranks_in_the_message_make_no_difference() -> None:
    story = Story()
    for slot in range(4):
        story.raised(slot, "own", "RuntimeError", f"rank {slot} has no data")
        story.end(slot, 1)
        story.tick(1.0)
    assert watched(story).culprits == rank(0, 1, 2, 3)


def test_a_rank_that_failed_a_step_before_the_others_alone_is_guilty() -> None:
    story = Story()
    story.everyone("init")
    story.raised(1, "own", "ValueError", "bad")
    story.end(1, 1)
    story.tick(1.0)
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
        story.victim(slot)
    assert watched(story).culprits == rank(1)


def test_exit_with_a_code_on_every_rank_is_said_of_all() -> None:
    story = Story()
    for slot in range(4):
        story.tick(1.0)
        story.end(slot, 3)
    verdict = watched(story)
    assert (verdict.culprits, verdict.kind) == (rank(0, 1, 2, 3), Kind.EXITED)


def test_exit_0_in_a_function_on_all_ranks_is_a_way_to_end() -> None:
    story = Story()
    story.everyone("init", "all_reduce", "barrier")
    for slot in range(4):
        story.end(slot, 0)
    assert watched(story).status is Status.PASS


def test_exit_0_of_all_but_rank_0_after_the_same_work_is_fine_too() -> None:
    story = Story()
    story.everyone("init", "all_reduce", "barrier")
    for slot in (1, 2, 3):
        story.end(slot, 0)
    story.finish(0)
    assert watched(story).status is Status.PASS


def test_exit_0_before_the_others_are_done_is_masked() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    story.end(3, 0)
    story.everyone("all_reduce", but=(3,))
    story.finish(0, 1, 2)
    verdict = watched(story)
    assert (verdict.status, verdict.outcome) == (Status.FAIL, Outcome.MASKED)


def test_optimizer_steps_of_one_rank_alone_are_its_own_affair() -> None:
    story = Story()
    story.everyone("init", "all_reduce", "barrier")
    for slot in (0, 1, 2):
        story.add(Stepped(story.tick(), slot, 2))
    story.add(Stepped(story.tick(), 3, 1))
    story.end(3, 0)
    story.finish(0, 1, 2)
    assert watched(story).status is Status.PASS


def test_exit_0_after_messages_only_cannot_be_judged() -> None:
    story = Story()
    story.everyone("init", "send")
    story.end(3, 0)
    story.finish(0, 1, 2)
    assert watched(story).status is Status.INCONCLUSIVE


def swallows(story: Story) -> None:
    """Rank 1 raises and catches in the midst; the others lose their operation and catch that too."""
    story.everyone("init", "all_reduce")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    for slot in (0, 2, 3):
        story.fail(slot)


def test_errors_that_all_ranks_swallow_are_masked() -> None:
    story = Story()
    swallows(story)
    story.finish(0, 1, 2, 3)
    verdict = watched(story)
    assert (verdict.status, verdict.outcome, verdict.culprits) == (Status.FAIL, Outcome.MASKED, rank(1))
    assert "all_reduce #2 failed on ranks 0, 2, 3" in verdict.reason


def test_a_group_that_is_formed_again_after_errors_is_no_pass() -> None:
    story = Story()
    swallows(story)
    story.everyone("init", "all_reduce")
    story.finish(0, 1, 2, 3)
    verdict = watched(story)
    assert (verdict.status, verdict.culprits) == (Status.INCONCLUSIVE, ())
    assert "cannot be told" in verdict.reason


def test_what_all_ranks_try_in_vain_is_no_swallowed_error() -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "reduce_scatter")
        story.fail(slot, "not supported by gloo")
    story.everyone("all_reduce")
    story.finish(0, 1, 2, 3)
    assert watched(story).status is Status.PASS


def test_a_rank_that_leaves_earlier_and_is_not_waited_for_is_named() -> None:
    story = Story()
    story.everyone("init", "broadcast")
    story.everyone("broadcast", but=(2,))
    story.finish(0, 1, 2, 3)
    verdict = watched(story)
    assert (verdict.status, verdict.outcome, verdict.culprits) == (Status.FAIL, Outcome.MASKED, rank(2))


def test_half_of_the_ranks_that_leave_earlier_may_be_meant() -> None:
    story = Story()
    story.everyone("init", "broadcast")
    story.everyone("broadcast", but=(2, 3))
    story.finish(0, 1, 2, 3)
    assert watched(story).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "said"),
    [
        ("4", "int32", Kind.OTHER_DTYPE, "with int32 where the others have float32"),
        ("2x2", "float32", Kind.OTHER_COLLECTIVE, "with another reduce operator"),
        ("5", "float32", Kind.OTHER_SHAPE, "with 5 where the others have 4"),
    ],
)
def test_an_operation_that_differs_and_completes_has_corrupted(
    shape: str, dtype: str, kind: Kind, said: str
) -> None:
    story = Story()
    story.everyone("init")
    for slot in (0, 1, 3):
        story.enter(slot, "all_reduce", shape="4", dtype="float32")
    story.enter(2, "all_reduce", fingerprint=12, shape=shape, dtype=dtype)
    for slot in range(4):
        story.complete(slot)
    story.everyone("barrier")
    story.finish(0, 1, 2, 3)
    verdict = watched(story)
    assert (verdict.status, verdict.outcome, verdict.kind) == (Status.FAIL, Outcome.CORRUPTED, kind)
    assert verdict.culprits == rank(2) and said in verdict.reason


def test_a_broadcast_from_elsewhere_is_said() -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "broadcast", fingerprint=5 + (slot == 2), shape="4", dtype="float32")
        story.complete(slot)
    story.finish(0, 1, 2, 3)
    assert "rank 2 entered broadcast #1 of group default with another root" in watched(story).reason


def test_exit_0_of_a_rank_that_a_fault_hit_stays_masked() -> None:
    story = Story()
    story.everyone("init", "all_reduce", "all_reduce")
    story.inject(1)
    story.end(1, 0)
    story.finish(0, 2, 3)
    verdict = watched(story, injections=plan_of(Kill()).injections, healthy=False)
    assert verdict.outcome is Outcome.MASKED


def test_a_signal_that_a_watched_program_dies_of_is_its_failure() -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.end(1, -signal.SIGSEGV)
    for slot in (0, 2, 3):
        story.victim(slot)
    verdict = watched(story)
    assert (verdict.status, verdict.culprits, verdict.kind) == (Status.FAIL, rank(1), Kind.KILLED)


# ---------------------------------------------------------------- time


def still(story: Story, *slots: int, seconds: float = 320.0, stack: tuple[str, ...] = ()) -> None:
    for _ in range(5):
        for slot in slots:
            story.add(
                Sampled(story.tick(0.0), slot, "S", "1.0.0", 0.0, "train.py:5", stack, 0.0, "train.py:5")
            )
        story.tick(seconds / 4)


def ended_at_deadline(story: Story, over_s: float) -> None:
    story.add(DeadlineReached(story.tick(), -1, final=True, over_s=over_s))
    for slot in range(story.size):
        story.end(slot, -9, "supervisor")


def waits_for_rank_1(story: Story) -> None:
    story.everyone("init", "all_reduce")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")


def test_a_program_hangs_when_nothing_moved_for_as_long_as_it_may_rest() -> None:
    story = Story()
    waits_for_rank_1(story)
    still(story, 0, 1, 2, 3)
    ended_at_deadline(story, 300.0)
    verdict = watched(story, timeout_s=1000.0)
    assert (verdict.status, verdict.outcome, verdict.culprits) == (Status.FAIL, Outcome.HUNG, rank(1))


def test_a_program_ended_by_its_timeout_after_a_short_rest_is_not_called_hung() -> None:
    story = Story()
    waits_for_rank_1(story)
    still(story, 0, 1, 2, 3, seconds=8.0)
    ended_at_deadline(story, 0.0)
    verdict = watched(story, timeout_s=20.0)
    assert (verdict.status, verdict.outcome) == (Status.INCONCLUSIVE, Outcome.OVERDUE)


def test_giving_up_the_group_for_ever_is_no_ranks_fault() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    stack = ("wait (torch/x.py:1)", "destroy_process_group (torch/distributed/distributed_c10d.py:2)")
    still(story, 0, 1, 2, 3, stack=stack)
    ended_at_deadline(story, 300.0)
    verdict = watched(story)
    assert (verdict.outcome, verdict.kind, verdict.culprits) == (Outcome.HUNG, Kind.HUNG_IN_TEARDOWN, ())


def test_a_rank_that_gives_up_the_group_while_others_wait_is_named() -> None:
    story = Story()
    waits_for_rank_1(story)
    still(story, 1, stack=("destroy_process_group (torch/distributed/distributed_c10d.py:2)",))
    story.now -= 320.0
    still(story, 0, 2, 3)
    ended_at_deadline(story, 300.0)
    assert watched(story).culprits == rank(1)


# ---------------------------------------------------------------- launchers


def test_a_launcher_that_ends_before_any_rank_says_why() -> None:
    story = Story(size=0)
    story.add(LauncherStarted(story.tick(), -1, 999))
    torchrun_ends(story, 2, "usage: torchrun [-h]\ntorchrun: error: unrecognized arguments: --frob\n=====\n")
    verdict = contract.judge(watching("command"), story.history)
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.reason == (
        "the launcher ended with 2 before it had started any rank: "
        "torchrun: error: unrecognized arguments: --frob"
    )


def test_ranks_that_never_joined_are_said() -> None:
    story = launched(size=2)
    for slot in (0, 1):
        story.end(slot, 0)
    torchrun_ends(story, 0)
    verdict = contract.judge(watching("torchrun", size=4), story.history)
    assert (verdict.status, verdict.reason) == (Status.INCONCLUSIVE, "2 of 4 ranks joined this run")


def test_a_launcher_that_starts_the_job_again_cannot_be_judged_as_one_run() -> None:
    story = launched(size=2)
    for slot in (0, 1):
        story.end(slot, 1)
        story.add(Started(story.tick(), slot, 2000 + slot))
        story.end(slot, 0)
    torchrun_ends(story, 0)
    verdict = watched(story, "torchrun")
    assert verdict.status is Status.INCONCLUSIVE
    assert "started ranks 0, 1 2 times" in verdict.reason


def test_ranks_that_start_ranks_are_said() -> None:
    story = launched(size=2)
    for slot in (0, 1):
        story.add(Identity(story.tick(), slot, slot, slot, 2, "host", 3000 + slot, "torchrun", "2"))
        story.end(slot, 0)
    assert "started ranks of its own" in watched(story, "torchrun").reason


def test_a_job_whose_launcher_hides_a_death_is_masked() -> None:
    story = launched()
    story.everyone("init", "all_reduce")
    story.end(3, -9)
    story.finish(0, 1, 2)
    torchrun_ends(story, 0)
    verdict = watched(story, "torchrun")
    assert (verdict.status, verdict.outcome, verdict.culprits) == (Status.FAIL, Outcome.MASKED, rank(3))


def test_a_launcher_that_fails_though_its_ranks_did_not_fails_the_job() -> None:
    story = launched()
    story.everyone("init", "all_reduce")
    story.finish(0, 1, 2, 3)
    torchrun_ends(story, 1, "RuntimeError: cannot write the log")
    verdict = watched(story, "torchrun")
    assert (verdict.status, verdict.outcome) == (Status.FAIL, Outcome.FAILED)
    assert "RuntimeError: cannot write the log" in verdict.reason


@pytest.mark.parametrize(("waited_s", "status"), [(1.0, Status.INCONCLUSIVE), (60.0, Status.FAIL)])
def test_a_launcher_that_outlives_its_ranks(waited_s: float, status: Status) -> None:
    story = launched()
    story.everyone("init", "all_reduce")
    story.finish(0, 1, 2, 3)
    story.tick(waited_s)
    torchrun_ends(story, -9, by="supervisor")
    assert watched(story, "torchrun").status is status


def test_ranks_that_torchrun_ends_after_a_death_are_victims() -> None:
    """Within its next look, so just after the death."""
    story = launched()
    story.everyone("init", "all_reduce")
    story.end(1, -9)
    for slot in (0, 2, 3):
        story.end(slot, -15)
    torchrun_ends(story, 1)
    assert watched(story, "torchrun").culprits == rank(1)


def test_a_rank_that_never_came_is_named_though_torchrun_ended_it() -> None:
    """One of the others ran into its timeout; torchrun then ended whom it waited for, and the rest."""
    story = launched()
    waits_for_rank_1(story)
    story.fail(0, "Timed out waiting 1000ms for recv operation to complete")
    story.raised(0, "timeout")
    story.end(0, 1)
    for slot in (1, 2, 3):
        story.add(Signalled(story.tick(), slot, 15, "launcher", "sent from outside"))
        story.end(slot, -15, "launcher")
    torchrun_ends(story, 1)
    verdict = watched(story, "torchrun")
    assert (verdict.culprits, verdict.kind) == (rank(1), Kind.NEVER_ENTERED)


def test_a_rank_told_to_end_before_anything_was_lost_is_the_first() -> None:
    story = launched()
    story.everyone("init", "all_reduce")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.add(Signalled(story.tick(), 2, 15, "launcher", "sent from outside"))
    story.end(2, -15, "launcher")
    for slot in (0, 1, 3):
        story.victim(slot)
    torchrun_ends(story, 1)
    verdict = watched(story, "torchrun")
    assert (verdict.culprits, verdict.kind) == (rank(2), Kind.KILLED)


def test_a_whole_job_told_to_end_is_no_ranks_fault() -> None:
    story = launched()
    story.everyone("init", "all_reduce")
    for slot in range(4):
        story.add(Signalled(story.tick(), slot, 15, "launcher", "sent from outside"))
    for slot in range(4):
        story.end(slot, -15, "launcher")
    torchrun_ends(story, 1)
    verdict = watched(story, "torchrun")
    assert (verdict.outcome, verdict.culprits) == (Outcome.FAILED, ())
    assert "every rank was told to end from outside the job" in verdict.reason


def test_a_rank_whose_keeper_was_killed_is_found_by_who_reaped_it() -> None:
    story = launched()
    story.everyone("init", "all_reduce")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.add(Reaped(story.tick(), -1, 1002, -9))
    for slot in (0, 1, 3):
        story.victim(slot)
    torchrun_ends(story, 1)
    verdict = watched(story, "torchrun")
    assert (verdict.outcome, verdict.culprits, verdict.kind) == (Outcome.FAILED, rank(2), Kind.KILLED)


def test_what_is_reaped_after_the_deadline_was_ended_by_the_supervisor() -> None:
    story = launched()
    waits_for_rank_1(story)
    still(story, 0, 1, 2, 3)
    story.add(DeadlineReached(story.tick(), -1, final=True, over_s=300.0))
    for slot in range(4):
        story.add(Signalled(story.tick(), slot, 15, "launcher", "sent from outside"))
        story.add(Reaped(story.tick(), -1, 1000 + slot, -9))
    torchrun_ends(story, -9, by="supervisor")
    verdict = watched(story, "torchrun")
    assert (verdict.outcome, verdict.culprits) == (Outcome.HUNG, rank(1))


def test_a_history_cut_anywhere_raises_nothing() -> None:
    story = launched()
    waits_for_rank_1(story)
    still(story, 0, 1, 2, 3)
    ended_at_deadline(story, 300.0)
    torchrun_ends(story, 1)
    events = story.history.events
    for length in range(len(events)):
        contract.judge(watching("torchrun"), History(events[:length]))
