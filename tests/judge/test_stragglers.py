"""Whom did the others wait for? From hand-made steps, and from what a loaded machine does to equal ranks."""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.history import Entered, Identity, RunDelay
from chaoskit.judge import stragglers
from chaoskit.judge.job import Job

Compute = Callable[[int, int], float]
"""(slot, step) -> seconds that the rank computes before it enters the step's operations."""


def trained(
    compute: Compute, *, size: int = 4, steps: int = 20, ops: int = 3, numbered: bool = True
) -> Story:
    """Each step computes, then enters ``ops`` operations one by one; nobody goes on before all came."""
    story = Story(size=size)
    story.everyone("init")
    free = dict.fromkeys(range(size), story.now + 1.0)
    seq = dict.fromkeys(range(size), 1)
    nth = 0
    for step in range(1, steps + 1):
        for slot in range(size):
            free[slot] += compute(slot, step)
        for _ in range(ops):
            nth += 1
            for slot in range(size):
                seq[slot] += 1
                number = step if numbered else 1
                story.add(Entered(free[slot], slot, "all_reduce", "default", nth, number, seq[slot]))
            over = max(free.values()) + 0.0005
            free = dict.fromkeys(range(size), over)
    return story


def named(story: Story) -> tuple[tuple[str, ...], tuple[str, ...]]:
    history = story.history
    found = stragglers.find(history, Job.of(history))
    return tuple(c.id for c in found.ranks), found.notes


def test_a_rank_that_is_slow_in_every_step_is_named() -> None:
    ranks, notes = named(trained(lambda slot, _: 0.03 if slot == 2 else 0.01))
    assert ranks == ("2",)
    assert notes[0].startswith("rank 2 was waited for in 19 of 20 steps, ")


def test_two_slow_ranks_of_five_are_both_named() -> None:
    assert named(trained(lambda slot, _: 0.03 if slot in (1, 3) else 0.01, size=5))[0] == ("1", "3")


def test_of_two_ranks_the_slower_one_is_named() -> None:
    assert named(trained(lambda slot, _: 0.03 if slot else 0.01, size=2))[0] == ("1",)


def test_a_rank_that_was_late_once_is_named() -> None:
    ranks, notes = named(trained(lambda slot, step: 2.0 if (slot, step) == (1, 7) else 0.01))
    assert (ranks, notes) == (("1",), notes)
    assert "rank 1 was waited for once, for 1.99 s" in notes[0]


def test_a_script_without_steps_is_looked_at_by_the_numbers_of_its_operations() -> None:
    assert named(trained(lambda s, _: 0.03 if s == 2 else 0.01, ops=1, numbered=False))[0] == ("2",)


def test_equal_ranks_name_nobody() -> None:
    assert named(trained(lambda slot, step: 0.01)) == ((), ())


def test_a_step_that_is_long_for_all_names_nobody() -> None:
    assert named(trained(lambda slot, step: 3.0 if step == 9 else 0.01)) == ((), ())


def test_a_late_start_is_no_straggling() -> None:
    assert named(trained(lambda slot, step: 5.0 if (slot, step) == (3, 1) else 0.01)) == ((), ())


def test_little_of_a_long_step_is_not_worth_a_word() -> None:
    assert named(trained(lambda slot, _: 1.02 if slot == 2 else 1.0)) == ((), ())


def test_time_spent_waiting_for_a_core_is_the_machines() -> None:
    story = trained(lambda slot, step: 0.07 if slot == 2 and step > 2 else 0.01)
    for slot in range(4):
        story.add(RunDelay(story.tick(), slot, 1.3 if slot == 2 else 0.2))
    assert named(story) == ((), ())


def test_a_rank_that_a_busy_core_makes_late_for_a_while_is_not_constant() -> None:
    assert named(trained(lambda slot, step: 0.03 if slot == 2 and step > 10 else 0.01)) == ((), ())


def test_a_rank_that_waits_elsewhere_for_the_slow_one_is_not_it() -> None:
    """Rank 3 is slow; rank 2 waits for it in their own group, and so comes late to the operation of all."""
    story = Story(size=4)
    story.everyone("init")
    now = story.now + 1.0
    seq = dict.fromkeys(range(4), 1)
    for step in range(1, 21):
        slow = now + 0.05
        for slot in (0, 1, 2, 3):
            seq[slot] += 1
            at = slow if slot == 3 else now
            row = (0, 1) if slot < 2 else (2, 3)
            story.add(Entered(at, slot, "all_reduce", "row", step, step, seq[slot], members=row))
        for slot in (0, 1, 2, 3):
            seq[slot] += 1
            at = slow + 0.001 if slot > 1 else now + 0.002
            story.add(Entered(at, slot, "all_reduce", "default", step, step, seq[slot]))
        now = slow + 0.01
    assert named(story)[0] == ("3",)


def test_two_processes_that_claim_one_rank_are_left_alone() -> None:
    story = trained(lambda slot, _: 0.03 if slot == 2 else 0.01)
    story.events = [
        dataclasses.replace(e, rank=1) if isinstance(e, Identity) and e.slot == 2 else e for e in story.events
    ]
    assert named(story) == ((), ())


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    size=st.sampled_from([2, 3, 4, 8]),
    steps=st.integers(1, 40),
    noise=st.sampled_from([0.001, 0.01, 0.05]),
)
def test_noise_that_hits_all_ranks_alike_names_nobody(seed: int, size: int, steps: int, noise: float) -> None:
    """As measured: half of the entries are late by next to nothing, a few by ten times the usual."""
    draw = random.Random(seed)

    def compute(slot: int, step: int) -> float:
        return 0.02 + noise * draw.choice((0.0, 0.0, 0.1, 1.0)) + (draw.random() < 0.02) * 5 * noise

    assert named(trained(compute, size=size, steps=steps)) == ((), ())
