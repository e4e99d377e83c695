"""Hung or slow, from hand-made samples: what may be called still, and over how long a time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story

from chaoskit.history import DeadlineReached, Sampled
from chaoskit.judge import hang
from chaoskit.judge.job import Job

STALL_S = 300.0
LOOK_S = 75.0


def looks(
    story: Story,
    *slots: int,
    count: int = 5,
    every_s: float = LOOK_S,
    cpu: tuple[float, ...] = (),
    io: tuple[int, ...] = (),
    allowance: tuple[float, ...] = (),
    token: tuple[str, ...] = (),
) -> None:
    for look in range(count):
        for slot in slots:
            story.add(
                Sampled(
                    story.tick(0.0),
                    slot,
                    "S",
                    token[look] if token else "1.0.0",
                    cpu[look] if cpu else 0.0,
                    "train.py:5",
                    (),
                    allowance[look] if allowance else 0.0,
                    "train.py:5",
                    io[look] if io else 0,
                    7,
                )
            )
        story.tick(every_s)


def judged(story: Story, over_s: float = STALL_S) -> bool:
    story.add(DeadlineReached(story.tick(), -1, final=True, over_s=over_s))
    for slot in range(story.size):
        story.end(slot, -9, "supervisor")
    return hang.judge(Job.of(story.history), over_s).hung


def started(ops: int = 1) -> Story:
    story = Story(size=2)
    story.everyone("init", *["all_reduce"] * ops)
    return story


def test_nothing_moved_for_all_of_the_time_is_hung() -> None:
    story = started()
    looks(story, 0, 1)
    assert judged(story)


def test_the_last_three_looks_alone_do_not_hang_a_program_that_may_rest_longer() -> None:
    """A rank that loads its data for minutes moved within the time it has, if not within seconds."""
    story = started()
    looks(story, 0, 1, token=("1", "2", "2", "2", "2"))
    assert not judged(story)
    story = started()
    looks(story, 0, 1, token=("1", "2", "2", "2", "2"))
    assert judged(story, over_s=0.0)


def test_looks_that_do_not_reach_back_far_enough_say_nothing() -> None:
    story = started()
    looks(story, 0, 1, count=3)
    assert not judged(story)


def test_a_rank_that_came_late_is_not_still_yet() -> None:
    story = started()
    looks(story, 0, count=2)
    looks(story, 0, 1, count=3)
    assert not judged(story)


@pytest.mark.parametrize("busy_in", range(4))
def test_a_rank_that_computed_in_any_part_of_the_time_moved(busy_in: int) -> None:
    story = started()
    used = tuple(20.0 if look > busy_in else 0.0 for look in range(5))
    looks(story, 0, 1, cpu=used)
    assert not judged(story)


def test_a_rank_that_only_keeps_its_threads_alive_does_not_move() -> None:
    story = started()
    looks(story, 0, 1, cpu=tuple(0.01 * LOOK_S * look for look in range(5)))
    assert judged(story)


def test_reading_a_file_is_movement_outside_of_an_operation_and_in_one_nobody_waits_for() -> None:
    story = started()
    looks(story, 0, 1, io=(0, 0, 100, 100, 100))
    assert not judged(story)
    story = started()
    story.enter(0, "all_reduce")  # asynchronous: the script writes a checkpoint meanwhile
    looks(story, 0, 1, io=(0, 0, 100, 200, 200))
    assert not judged(story)


def test_looking_up_a_name_again_and_again_is_no_movement() -> None:
    story = Story(size=2)
    story.enter(0, "init")
    story.enter(1, "init")
    looks(story, 0, 1, io=(0, 100, 200, 300, 400))
    assert judged(story)


def test_the_time_of_a_declared_phase_does_not_count() -> None:
    story = started()
    looks(story, 0, 1, allowance=(200.0, 125.0, 50.0, 0.0, 0.0))
    assert not judged(story)


def test_a_receiver_whose_peer_may_be_the_one_that_computes_does_not_hang() -> None:
    """It is not recorded from whom a recv receives: rank 0 has received more, and may still be the sender."""
    story = Story(size=3)
    story.everyone("init")
    for _ in range(3):
        story.enter(0, "recv")
        story.complete(0)
    story.enter(1, "recv")
    story.enter(2, "recv")
    looks(story, 1, 2)
    story.now -= 5 * LOOK_S
    looks(story, 0, cpu=tuple(30.0 * look for look in range(5)))
    assert not judged(story)


def test_who_waits_for_a_rank_that_computes_does_not_hang_over_a_recv_that_stands_open() -> None:
    """Ranks 0 and 1 have posted a recv from each other for messages that come some time; rank 2 computes."""
    story = Story(size=3)
    story.everyone("init")
    story.enter(0, "recv", peer=1)
    story.enter(1, "recv", peer=0)
    for slot in (0, 1):
        story.enter(slot, "all_reduce")
    looks(story, 0, 1)
    story.now -= 5 * LOOK_S
    looks(story, 2, cpu=tuple(30.0 * look for look in range(5)))
    assert not judged(story)


def test_no_looks_at_all_is_not_hung() -> None:
    assert not judged(started())
