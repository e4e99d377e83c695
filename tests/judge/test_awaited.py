"""Who waits for whom, where that is no hang."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story

from chaoskit.history import DeadlineReached, Interrupted, Sampled
from chaoskit.judge import awaited
from chaoskit.judge.job import Job

WITHIN_S = 20.0


def spinning(looks: int = 5) -> Story:
    """Ranks 0, 2 and 3 wait in their second all_reduce; rank 1 computes and never comes."""
    story = Story(size=4)
    story.everyone("init", "all_reduce")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    for look in range(looks):
        for slot in range(4):
            cpu_s = 5.0 * look if slot == 1 else 0.0
            line = "train.py:12" if slot == 1 else ""
            story.add(Sampled(story.tick(0.0), slot, "S", "1.0.0", cpu_s, line, (), 0.0, line, 0, 7))
        story.tick(5.0)
    return story


def test_the_rank_that_computes_is_named_with_its_line() -> None:
    story = spinning()
    story.add(DeadlineReached(story.tick(), -1, final=True, over_s=WITHIN_S))
    found = awaited.now(Job.of(story.history), WITHIN_S)
    assert found is not None
    assert found.said == "ranks 0, 2, 3 wait in all_reduce #2 for rank 1, which computes at train.py:12"
    assert story.now - found.since_s == pytest.approx(25.0, abs=0.1)


def test_looks_that_do_not_reach_back_say_nothing_yet() -> None:
    assert awaited.now(Job.of(spinning(looks=3).history), WITHIN_S) is None


def test_where_nobody_moves_nobody_is_awaited() -> None:
    story = spinning()
    story.events = [dataclasses.replace(e, cpu_s=0.0) if isinstance(e, Sampled) else e for e in story.events]
    assert awaited.now(Job.of(story.history), WITHIN_S) is None


@pytest.mark.parametrize(("waited_s", "told"), [(1.0, False), (3.0, True)])
def test_an_interrupt_tells_a_long_wait_without_any_look(waited_s: float, told: bool) -> None:
    story = spinning(looks=0)
    story.add(Interrupted(story.tick(waited_s), -1))
    for slot in range(4):
        story.end(slot, -9, "supervisor")
    found = awaited.at_interrupt(story.history)
    assert (found.said if found else "") == ("ranks 0, 2, 3 wait in all_reduce #2 for rank 1" if told else "")


def test_what_came_after_the_interrupt_is_not_told() -> None:
    story = Story(size=2)
    story.everyone("init")
    story.add(Interrupted(story.tick(5.0), -1))
    story.enter(0, "all_reduce")
    assert awaited.at_interrupt(story.history) is None
