"""Silent divergence, from checksums of what all ranks have to hold alike."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from hypothesis import given
from hypothesis import strategies as st
from plans import plan_of

from chaoskit.history import Finished, Replicated
from chaoskit.judge import blame, contract, replicas
from chaoskit.judge.job import Job
from chaoskit.model import Contract, Culprit, Kind, Outcome, Status, Verdict, Workload

PROGRAM = Workload("train.py", kind="script", target="/tmp/train.py")
WATCHED = Contract(Outcome.COMPLETED)


def checked(
    story: Story, step: int, sums: Mapping[int, int], *, final: bool = False, ordinal: int = 0
) -> None:
    for slot, checksum in sums.items():
        story.add(Replicated(story.tick(), slot, step, checksum, final, ordinal))


def alike(story: Story, step: int, *, final: bool = False) -> None:
    checked(story, step, dict.fromkeys(range(story.size), 1000 + step), final=final)


def watched(story: Story) -> Verdict:
    for slot in range(story.size):
        story.add(Finished(story.tick(), slot))
        story.end(slot, 0)
    plan = plan_of(
        size=story.size, workload=PROGRAM, expected_result=None, contract=WATCHED,
        hardened_contract=WATCHED, healthy=True, bound_s=None, stall_s=300.0,
    )  # fmt: skip
    return contract.judge(plan, story.history)


def ran(size: int = 4) -> Story:
    story = Story(size=size)
    story.everyone("init", *["all_reduce"] * 4)
    return story


def test_equal_replicas_are_said_to_have_been_checked() -> None:
    story = ran()
    for step in (0, 1, 2):
        alike(story, step)
    alike(story, 3, final=True)
    verdict = watched(story)
    assert (verdict.status, verdict.notes) == (Status.PASS, ())
    assert verdict.reason.endswith("replicas equal at 4 checks")


def test_without_checksums_the_result_is_unchecked() -> None:
    assert watched(ran()).reason.endswith("result: unchecked")


def test_checks_that_not_all_ranks_took_do_not_count() -> None:
    story = ran()
    checked(story, 1, {0: 5, 1: 5, 2: 5})
    assert watched(story).reason.endswith("result: unchecked")


def test_the_rank_that_differs_is_named_with_the_first_step() -> None:
    story = ran()
    alike(story, 0)
    for step in (16, 32):
        checked(story, step, {0: 5, 1: 5, 2: 6, 3: 5})
    checked(story, 40, {0: 5, 1: 5, 2: 6, 3: 5}, final=True)
    verdict = watched(story)
    assert (verdict.status, verdict.outcome, verdict.kind) == (Status.FAIL, Outcome.CORRUPTED, Kind.DIVERGED)
    assert verdict.culprits == (Culprit("rank", "2"),)
    assert "after step 16 (equal still after step 0)" in verdict.reason


def test_of_two_ranks_nobody_can_tell_which_one_diverged() -> None:
    story = ran(2)
    checked(story, 1, {0: 5, 1: 6})
    checked(story, 2, {0: 7, 1: 8})
    verdict = watched(story)
    assert (verdict.outcome, verdict.ambiguous, len(verdict.culprits)) == (Outcome.CORRUPTED, True, 2)


def test_another_step_is_not_compared() -> None:
    """Ranks that overwrote some of their records have checksums of different steps."""
    story = ran()
    checked(story, 1, {0: 1, 1: 1})
    checked(story, 2, {2: 2, 3: 2})
    assert replicas.compare(Job.of(story.history)) == replicas.Comparison()


def test_several_models_are_compared_each_with_itself() -> None:
    story = ran()
    for ordinal in (0, 1):
        checked(story, 1, dict.fromkeys(range(4), 10 + ordinal), ordinal=ordinal)
        checked(story, 2 + ordinal, dict.fromkeys(range(4), 20 + ordinal), ordinal=ordinal, final=True)
    assert watched(story).reason.endswith("replicas equal at 4 checks")


def test_a_forward_pass_more_on_one_rank_is_no_divergence() -> None:
    story = ran()
    alike(story, 1)
    checked(story, 1, {2: 77})
    assert watched(story).status is Status.PASS


def test_rank_0_may_load_its_best_checkpoint_at_the_end() -> None:
    story = ran()
    alike(story, 19)
    checked(story, 20, {0: 9, 1: 5, 2: 5, 3: 5}, final=True)
    verdict = watched(story)
    assert (verdict.status, verdict.outcome, verdict.culprits) == (Status.PASS, Outcome.COMPLETED, ())
    assert "rank 0 alone differs at the end" in verdict.notes[0]


def test_rank_0_differs_at_the_end_and_was_not_checked_for_long_nothing_can_be_said() -> None:
    story = ran()
    alike(story, 16)
    checked(story, 20, {0: 9, 1: 5, 2: 5, 3: 5}, final=True)
    verdict = watched(story)
    assert (verdict.status, verdict.culprits) == (Status.INCONCLUSIVE, ())


def test_rank_0_that_was_checked_just_before_it_loaded_is_fine() -> None:
    story = ran()
    alike(story, 16)
    checked(story, 20, {0: 5})
    checked(story, 20, {0: 9, 1: 5, 2: 5, 3: 5}, final=True)
    assert watched(story).status is Status.PASS


def test_an_equal_check_after_the_last_update_hides_no_other_end() -> None:
    """A change by hand, which is no update of an optimizer."""
    story = ran()
    alike(story, 0)
    checked(story, 0, {0: 5, 1: 5, 2: 9, 3: 5}, final=True)
    verdict = watched(story)
    assert (verdict.outcome, verdict.culprits) == (Outcome.CORRUPTED, (Culprit("rank", "2"),))
    assert "at the end (equal still after step 0)" in verdict.reason


def test_a_small_models_checks_say_nothing_of_a_big_one() -> None:
    story = ran()
    alike(story, 0)
    checked(story, 0, dict.fromkeys(range(4), 3), ordinal=1)
    for step in range(1, 20):
        alike(story, step)
    alike(story, 20, final=True)
    checked(story, 20, {0: 9, 1: 5, 2: 5, 3: 5}, final=True, ordinal=1)
    verdict = watched(story)
    assert (verdict.status, verdict.culprits) == (Status.INCONCLUSIVE, ())
    assert "equal still after step 0 of 20" in verdict.reason


def test_what_rank_0_loads_in_one_model_hides_no_divergence_of_another() -> None:
    story = ran()
    alike(story, 19)
    checked(story, 19, dict.fromkeys(range(4), 3), ordinal=1)
    checked(story, 20, {0: 9, 1: 5, 2: 5, 3: 5}, final=True)
    checked(story, 20, {0: 5, 1: 5, 2: 7, 3: 5}, final=True, ordinal=1)
    assert watched(story).culprits == (Culprit("rank", "2"),)


def test_another_rank_that_differs_at_the_end_has_diverged() -> None:
    story = ran()
    alike(story, 19)
    checked(story, 20, {0: 5, 1: 5, 2: 5, 3: 9}, final=True)
    assert watched(story).culprits == (Culprit("rank", "3"),)


def test_a_rank_that_made_an_update_too_many_has_diverged() -> None:
    story = ran()
    alike(story, 19)
    checked(story, 20, {0: 5, 1: 5, 2: 5}, final=True)
    checked(story, 21, {3: 6}, final=True)
    assert watched(story).culprits == (Culprit("rank", "3"),)


def test_ranks_with_different_numbers_of_updates_and_the_same_end_are_equal() -> None:
    """Uneven data under Join: the model of the last rank is handed to all."""
    story = ran()
    alike(story, 0)
    for slot in range(4):
        checked(story, 10 + slot, {slot: 5}, final=True)
    assert watched(story).status is Status.PASS


def test_a_killed_rank_is_blamed_before_one_that_had_diverged() -> None:
    story = ran()
    checked(story, 1, {0: 5, 1: 5, 2: 6, 3: 5})
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.end(1, -9)
    for slot in (0, 2, 3):
        story.victim(slot)
    found = blame.find(story.history)
    assert (found.culprits, found.kind) == ((Culprit("rank", "1"),), Kind.KILLED)


def test_what_ranks_do_after_their_guard_found_a_divergence_is_consequence() -> None:
    story = ran()
    checked(story, 1, {0: 5, 1: 5, 2: 6, 3: 5})
    story.fired(0, "consistency", 88, "rank 2 differs since step 1")
    story.end(0, 88)
    for slot in (1, 2, 3):
        story.enter(slot, "all_reduce")
        story.victim(slot)
    found = blame.find(story.history)
    assert (found.culprits, found.kind) == ((Culprit("rank", "2"),), Kind.DIVERGED)


@given(
    odd=st.sets(st.integers(0, 6), max_size=3),
    steps=st.integers(1, 5),
    seed=st.integers(0, 2**62),
)
def test_a_minority_that_differs_is_named_whoever_it_is(odd: set[int], steps: int, seed: int) -> None:
    story = Story(size=7)
    for step in range(steps):
        checked(story, step, {slot: seed + (slot in odd) for slot in range(7)})
    found = replicas.compare(Job.of(story.history))
    if odd:
        assert found.difference is not None
        assert (found.difference.odd, found.difference.clear) == (tuple(sorted(odd)), True)
    else:
        assert found == replicas.Comparison(checks=steps)
