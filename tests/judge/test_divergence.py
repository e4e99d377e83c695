"""What is said of ranks whose programs part: which operation, which line, in any order."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from histories import Story
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.judge import blame
from chaoskit.model import Blame, Culprit, Kind, Operation
from chaoskit.verdict import Sureness


def rank(*ids: int) -> tuple[Culprit, ...]:
    return tuple(Culprit("rank", str(i)) for i in ids)


def hung(story: Story) -> Blame:
    story.still(*range(story.size))
    story.deadline(*range(story.size))
    return blame.find(story.history)


LOOP = ("all_reduce", "broadcast", "barrier")


def trained(rounds: int) -> Story:
    story = Story()
    story.everyone("init")
    for step in range(1, rounds + 1):
        story.step = dict.fromkeys(range(4), step)
        story.everyone(*LOOP)
    return story


def test_a_skipped_barrier_in_the_words_of_the_design() -> None:
    story = trained(2)
    story.step = dict.fromkeys(range(4), 3)
    story.everyone("all_reduce", "broadcast")
    story.step[1] = 4
    story.enter(1, "all_reduce")
    for slot in (0, 2, 3):
        story.enter(slot, "barrier")
    found = hung(story)
    assert found.reason == (
        "rank 1 skipped barrier #3 of group default; the others wait in it; "
        "rank 1 went on to all_reduce #4 (step 3)"
    )
    assert (found.at, found.where) == (Operation("barrier", "default", 3), "train.py:17")
    assert found.evidence[0] == (
        "ranks 0, 2, 3 entered barrier #3 of group default at train.py:17; "
        "rank 1 entered all_reduce #4 of group default at train.py:20"
    )


def test_an_extra_one_is_named_with_its_own_line() -> None:
    story = trained(2)
    story.step = dict.fromkeys(range(4), 3)
    story.everyone("all_reduce")
    story.enter(2, "all_reduce")
    for slot in (0, 1, 3):
        story.enter(slot, "broadcast")
    found = hung(story)
    assert found.reason.startswith(
        "rank 2 entered an extra all_reduce #4 of group default; the others wait in broadcast #3"
    )
    assert (found.culprits, found.where) == (rank(2), "train.py:20")


def test_a_call_of_its_own_branch_is_named_with_that_line() -> None:
    story = trained(2)
    story.enter(0, "gather", site="save.py:7")
    for slot in (1, 2, 3):
        story.enter(slot, "all_reduce")
    found = hung(story)
    assert (found.culprits, found.kind, found.where) == (rank(0), Kind.OTHER_COLLECTIVE, "save.py:7")


def test_a_swap_that_went_on_is_told_from_a_skip() -> None:
    story = trained(2)
    story.enter(1, "broadcast", fingerprint=22)
    story.complete(1)
    story.enter(1, "all_reduce")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
        story.complete(slot)
        story.enter(slot, "broadcast")
    found = hung(story)
    assert (found.culprits, found.kind) == (rank(1), Kind.OTHER_COLLECTIVE)
    assert "skipped" not in found.reason and "extra" not in found.reason
    assert "entered broadcast #3 of group default where the others completed all_reduce #3" in found.reason


def test_lines_tell_of_operations_that_look_alike() -> None:
    """Two barriers in a row; rank 0 leaves the first one out, which shows one position later."""
    story = Story()
    story.everyone("init")
    for slot in range(4):
        for site in ("train.py:67", "train.py:72"):
            if (slot, site) != (0, "train.py:67"):
                story.enter(slot, "barrier", site=site)
                story.complete(slot)
        if slot == 0:
            story.enter(slot, "all_reduce")
    found = hung(story)
    assert (found.culprits, found.kind) == (rank(0), Kind.OTHER_COLLECTIVE)
    assert found.at == Operation("barrier", "default", 1)
    assert found.where == "train.py:67"


@pytest.mark.parametrize("with_end", [True, False])
def test_a_harmful_difference_comes_before_an_abort_that_a_victim_has(with_end: bool) -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "broadcast", fingerprint=7 if slot == 0 else 5, shape="4" if slot == 0 else "5")
        story.complete(slot)
    for slot in range(4):
        story.enter(slot, "all_reduce")
    if with_end:
        story.end(2, -6)
        for slot in (0, 1, 3):
            story.victim(slot)
    else:
        story.deadline(0, 1, 2, 3)
    assert blame.find(story.history).culprits == rank(0)


def test_what_a_blame_rests_on_is_listed_the_strongest_first() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.end(1, -9)
    for slot in (0, 2, 3):
        story.victim(slot)
    found = blame.find(story.history)
    assert (
        found.evidence[0] == "rank 1: ended by SIGKILL 3.0 ms after it entered all_reduce #2 of group default"
    )
    assert "rank 0 raised RuntimeError: x 2.0 ms later (a victim)" in found.evidence
    assert (found.at, found.sureness) == (Operation("all_reduce", "default", 2), Sureness.CERTAIN)
    assert found.reason == "rank 1 was ended by SIGKILL in all_reduce #2; the others failed in it"
    assert len(found.evidence) <= 6


def test_an_abort_is_no_more_than_likely() -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.end(1, -6)
    for slot in (0, 2, 3):
        story.victim(slot)
    assert blame.find(story.history).sureness is Sureness.LIKELY


def test_a_rank_that_nobody_looked_at_is_no_more_than_likely() -> None:
    story = Story()
    story.everyone("init")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    for slot in range(4):
        story.end(slot, -15, "launcher")
    assert blame.find(story.history).sureness is Sureness.LIKELY


def test_a_stopped_rank_parted_where_its_own_group_waits() -> None:
    """The ranks of the other half came to the barrier of all before."""
    story = Story()
    story.everyone("init")
    story.stop(3)
    for slot in (0, 1):
        story.enter(slot, "barrier")
    story.enter(2, "all_reduce", group="right", members=(2, 3))
    found = hung(story)
    assert (found.culprits, found.kind) == (rank(3), Kind.FROZEN)
    assert found.at == Operation("all_reduce", "right", 1)


def test_a_late_rank_that_ddp_waited_for_in_vain() -> None:
    """A reduction that times out in C++ is not recorded as failed: the error that left the script tells."""
    story = Story()
    story.everyone("init", "all_reduce")
    for slot in (0, 1, 2):
        story.enter(slot, "all_reduce")
    story.tick(3.0)
    story.raised(0, "timeout")
    for slot in (1, 2):
        story.raised(slot, "peer_lost")
    story.tick(1.0)
    story.enter(3, "all_reduce")
    for slot in (0, 1, 2, 3):
        story.end(slot, 1 if slot < 3 else -15, "" if slot < 3 else "launcher")
    found = blame.find(story.history)
    assert (found.culprits, found.kind) == (rank(3), Kind.LATE)


def test_the_first_of_several_reductions_under_way_is_where_a_rank_is_missing() -> None:
    story = Story()
    story.everyone("init")
    for _ in range(3):
        for slot in (0, 1, 2):
            story.enter(slot, "all_reduce")
    found = hung(story)
    assert (found.culprits, found.at) == (rank(3), Operation("all_reduce", "default", 1))


# ---------------------------------------------------------------- the same, whatever the timing


@dataclass
class Run:
    """Ranks that each run a list of operations, and wait in each until all are in the same one."""

    programs: list[list[str]]
    story: Story
    at: list[int] = field(default_factory=list)
    inside: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.at = [0] * len(self.programs)

    def moves(self) -> list[int]:
        """The ranks that can go on: those outside of operations."""
        return [r for r, at in enumerate(self.at) if r not in self.inside and at < len(self.programs[r])]

    def enter(self, slot: int) -> None:
        self.story.enter(slot, self.programs[slot][self.at[slot]])
        self.inside.add(slot)
        everyone = len(self.inside) == len(self.programs)
        if everyone and len({self.programs[r][self.at[r]] for r in self.inside}) == 1:
            for rank_ in sorted(self.inside):
                self.story.complete(rank_)
                self.at[rank_] += 1
            self.inside.clear()


def parted(how: str, at: int) -> list[str]:
    """The program of the rank that departs from the loop in round 3."""
    program = list(LOOP) * 5
    index = 6 + at
    if how == "skipped":
        del program[index]
    elif how == "extra":
        program.insert(index, program[index - 1])
    else:
        program[index], program[index + 1] = program[index + 1], program[index]
    return program


@settings(max_examples=150, deadline=None)
@given(
    guilty=st.integers(0, 3),
    how=st.sampled_from(["skipped", "extra", "swapped"]),
    at=st.integers(0, 2),
    order=st.randoms(use_true_random=False),
    patience=st.integers(0, 3),
    size=st.sampled_from([3, 4]),
)
def test_the_same_divergence_has_the_same_culprit_and_kind_in_any_order(
    guilty: int, how: str, at: int, order: object, patience: int, size: int
) -> None:
    """Whoever comes first, and whoever gives up first: the rank that parted is named, and how."""
    guilty %= size
    story = Story(size=size)
    story.everyone("init")
    run = Run([parted(how, at) if r == guilty else list(LOOP) * 5 for r in range(size)], story)
    while moves := run.moves():
        run.enter(order.choice(moves))  # type: ignore[attr-defined]
    if patience:
        waiting = sorted(run.inside)
        order.shuffle(waiting)  # type: ignore[attr-defined]
        story.tick(3.0)
        for slot in waiting[:patience]:
            story.fail(slot, "Timed out waiting 3000ms for recv operation to complete")
            story.raised(slot, "timeout")
            story.end(slot, 1)
        for slot in waiting[patience:]:
            story.victim(slot)
    else:
        story.still(*range(size))
        story.deadline(*range(size))
    found = blame.find(story.history)
    assert (found.culprits, found.kind, found.ambiguous) == (rank(guilty), Kind.OTHER_COLLECTIVE, False)
    assert found.at is not None and found.at.group == "default"
