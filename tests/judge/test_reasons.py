"""What a reason says, and what it leaves open because the records do not tell it."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from plans import HARDENED, Stall, plan_of

from chaoskit.history import Finished
from chaoskit.intercept.call import _digest
from chaoskit.judge import blame, contract, hang
from chaoskit.judge.job import Job
from chaoskit.judge.wording import called
from chaoskit.model import Blame, Culprit, Kind, Plan, Status


def found(story: Story) -> Blame:
    return blame.find(story.history)


def ended_without(*before: str) -> Story:
    """Rank 3 ends with 0 where the others go on to one more all_reduce, and lose it."""
    story = Story()
    story.everyone("init", *before)
    story.add(Finished(story.tick(), 3))
    for slot in (0, 1, 2):
        story.enter(slot, "all_reduce")
    story.end(3, 0)
    for slot in (0, 1, 2):
        story.victim(slot)
    return story


def test_counts_do_not_tell_which_of_equal_operations_was_left_out() -> None:
    it = found(ended_without("all_reduce", "all_reduce"))
    assert it.culprits == (Culprit("rank", "3"),)
    assert "rank 3 skipped one of its all_reduces up to #3 of group default" in it.reason
    assert it.reason.endswith("it finished without and ended with exit 0")


def test_an_operation_behind_another_one_is_named_by_its_number() -> None:
    assert "rank 3 skipped all_reduce #2 of" in found(ended_without("all_reduce", "barrier")).reason


def test_a_message_posted_for_another_peer_is_named() -> None:
    """Rank 1 posts a recv from rank 2, who sends nothing, where rank 0 sends to it."""
    story = Story(3)
    story.everyone("init")
    story.enter(1, "recv", peer=2, site="ring.py:7")
    story.enter(1, "send", peer=2, site="ring.py:10")
    story.complete(1)
    story.enter(0, "send", peer=1, site="ring.py:10")
    story.still(0, 1, line="ring.py:11", stack=("Watched.wait (/x/chaoskit/intercept/work.py:94)",))
    story.still(2)
    story.deadline(0, 1, 2)
    it = found(story)
    assert (it.culprits, it.where, it.likely) == ((Culprit("rank", "1"),), "ring.py:7", True)
    assert "it entered recv #1 from rank 2 at ring.py:7, which nobody sends" in it.reason
    said = hang.judge(Job.of(story.history)).reason
    assert "rank 1 waiting in recv #1; rank 2 outside any collective" in said


def test_ranks_are_grouped_by_what_they_wait_in() -> None:
    story = Story(3)
    story.everyone("init", "all_reduce")
    for slot, op in enumerate(("all_reduce", "barrier", "all_reduce")):
        story.enter(slot, op)
    story.still(0, 1, 2)
    story.deadline(0, 1, 2)
    said = hang.judge(Job.of(story.history)).reason
    assert said == "alive at the deadline: ranks 0, 2 waiting in all_reduce #2; rank 1 waiting in barrier #1"


def with_roots(*roots: int) -> Story:
    story = Story(len(roots))
    story.everyone("init")
    for slot, root in enumerate(roots):
        mark = _digest(("broadcast", ((4, torch.float32),), None, root))
        story.enter(slot, "broadcast", fingerprint=mark, shape="4", dtype="float32", site="a.py:5")
    story.still(*range(len(roots)))
    story.deadline(*range(len(roots)))
    return story


def test_both_roots_are_named() -> None:
    it = found(with_roots(0, 0, 1, 0))
    assert (it.kind, it.culprits) == (Kind.OTHER_COLLECTIVE, (Culprit("rank", "2"),))
    assert (
        it.reason
        == "rank 2 entered broadcast #1 of group default with another root than the others: 1, not 0"
    )
    assert "not with the same arguments" in it.evidence[0]


def test_a_group_that_torch_numbered_is_called_by_its_members() -> None:
    story = Story(2)
    story.enter(0, "barrier", group="7", members=(0, 1))
    story.enter(1, "barrier", group="7")
    assert [called(story.last[s]) for s in (0, 1)] == ["barrier #1 of group {0, 1}", "barrier #1 of group 7"]


def swapped(size: int) -> tuple[Plan, Story]:
    promised = dataclasses.replace(HARDENED, kind=Kind.OTHER_COLLECTIVE)
    plan = plan_of(Stall(), contract=promised, hardened_contract=promised, size=size)
    story = Story(size)
    story.everyone("init", "all_reduce")
    story.inject(1, op="all_reduce", nth=2)
    for slot in range(size):
        story.enter(slot, "broadcast" if slot == 1 else "all_reduce")
    story.timed_out(*range(size))
    return plan, story


def judged(size: int) -> tuple[Status, str, bool | None]:
    plan, story = swapped(size)
    it = contract.judge(plan, story.history)
    return it.status, it.reason, it.bites


def test_two_ranks_that_differ_are_undecided() -> None:
    status, reason, bites = judged(2)
    assert (status, bites) == (Status.INCONCLUSIVE, None)
    assert "two ranks differ and no third tells who is right" in reason


def test_a_third_rank_decides() -> None:
    assert judged(3)[0] is Status.PASS


def test_two_ranks_fail_where_another_promise_is_broken_too() -> None:
    plan, story = swapped(2)
    plan = dataclasses.replace(plan, contract=dataclasses.replace(plan.contract, kind=Kind.KILLED))
    assert contract.judge(plan, story.history).status is Status.FAIL
