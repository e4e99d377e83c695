"""The wrong group, two threads in one group, and circles of collectives."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story

from chaoskit.judge import blame
from chaoskit.model import Blame, Culprit, Kind, Operation
from chaoskit.verdict import Sureness

ALL = (0, 1, 2, 3)
LEFT = (0, 1)


def rank(*ids: int) -> tuple[Culprit, ...]:
    return tuple(Culprit("rank", str(i)) for i in ids)


def hung(story: Story) -> Blame:
    story.still(*range(story.size))
    story.deadline(*range(story.size))
    return blame.find(story.history)


def rounds(story: Story, count: int) -> None:
    """All in default, the first two in the group left, and a barrier of all."""
    for _ in range(count):
        story.everyone("all_reduce")
        for slot in LEFT:
            story.enter(slot, "all_reduce", group="left", members=LEFT)
        for slot in LEFT:
            story.complete(slot)
        story.everyone("barrier")


def test_the_same_operation_in_another_group() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    story.enter(1, "all_reduce", group="tp", members=ALL)
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    found = hung(story)
    assert (found.culprits, found.kind, found.sureness) == (rank(1), Kind.OTHER_GROUP, Sureness.CERTAIN)
    assert found.reason.startswith(
        "rank 1 entered all_reduce #1 of group tp where the others entered all_reduce #2 of group default"
    )
    assert found.at == Operation("all_reduce", "default", 2)


def test_of_two_ranks_neither_is_more_likely() -> None:
    story = Story(size=2)
    story.everyone("init", "all_reduce")
    story.enter(1, "all_reduce", group="tp", members=(0, 1))
    story.enter(0, "all_reduce")
    found = hung(story)
    assert (found.culprits, found.kind, found.sureness) == (rank(0, 1), Kind.DEADLOCK, Sureness.AMBIGUOUS)


def test_in_the_group_of_all_instead_of_the_own_half() -> None:
    story = Story()
    story.everyone("init")
    story.enter(0, "all_reduce", group="left", members=LEFT)
    story.enter(1, "all_reduce")
    for slot in (2, 3):
        story.enter(slot, "barrier")
    found = hung(story)
    assert (found.culprits, found.kind) == (rank(1), Kind.OTHER_GROUP)
    assert "rank 0 entered all_reduce #1 of group left" in found.reason


def test_a_skipped_operation_of_a_subgroup_is_told_by_the_rounds_before() -> None:
    """Rank 0 left out all_reduce #5 of left and waits in the barrier for rank 1, which is in left."""
    story = Story()
    story.everyone("init")
    rounds(story, 4)
    story.everyone("all_reduce")
    story.enter(1, "all_reduce", group="left", members=LEFT)
    for slot in (0, 2, 3):
        story.enter(slot, "barrier")
    found = hung(story)
    assert (found.culprits, found.kind, found.sureness) == (rank(0), Kind.OTHER_COLLECTIVE, Sureness.LIKELY)
    assert found.reason.startswith(
        "rank 0 skipped all_reduce #5 of group left and went on to barrier #5 of group default"
    )
    assert found.at == Operation("all_reduce", "left", 5)


def test_the_wrong_group_of_unequal_ones_is_told_by_the_rounds_before() -> None:
    """Rank 1 takes left, of which rank 0 alone is a member too, for the all_reduce of all."""
    story = Story()
    story.everyone("init")
    rounds(story, 4)
    story.enter(1, "all_reduce", group="left", members=LEFT)
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    found = hung(story)
    assert (found.culprits, found.sureness) == (rank(1), Sureness.LIKELY)


def test_a_circle_of_groups_without_rounds_is_ambiguous() -> None:
    story = Story(size=3)
    story.everyone("init")
    for slot, group, members in ((0, "a", (0, 1)), (1, "b", (1, 2)), (2, "c", (0, 2))):
        story.enter(slot, "all_reduce", group=group, members=members)
    found = hung(story)
    assert (found.culprits, found.kind, found.sureness) == (rank(0, 1, 2), Kind.DEADLOCK, Sureness.AMBIGUOUS)


def test_two_threads_that_interleave_are_named() -> None:
    story = Story()
    story.everyone("init", "barrier", "all_reduce")
    story.enter(1, "barrier", thread=1)
    story.enter(1, "all_reduce")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    found = hung(story)
    assert (found.culprits, found.kind) == (rank(1), Kind.OTHER_COLLECTIVE)
    assert found.reason.startswith(
        "rank 1 entered barrier #2 of group default from a second thread between all_reduce #1 and "
        "all_reduce #2: two threads interleave on group default; the others wait in all_reduce #2"
    )


def test_a_main_thread_that_was_ahead_of_the_others_second_one() -> None:
    story = Story()
    story.everyone("init", "barrier")
    story.enter(1, "all_reduce")
    for slot in (0, 2, 3):
        story.enter(slot, "barrier", thread=1)
    found = hung(story)
    assert "entered all_reduce #1 of group default from its main thread" in found.reason
    assert "two threads interleave on group default" in found.reason


def test_of_two_ranks_with_two_threads_both_are_named() -> None:
    story = Story(size=2)
    story.everyone("init")
    story.enter(0, "barrier", thread=1)
    story.enter(1, "all_reduce")
    found = hung(story)
    assert (found.culprits, found.ambiguous) == (rank(0, 1), True)
    assert found.reason.endswith("; two threads interleave on group default")
