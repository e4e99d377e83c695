"""Histories of several machines on one clock: no operation may end before all have entered it."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.history import Clock, Completed, Entered, Event, History
from chaoskit.judge import clocks


def seen_by(
    history: History, machine: dict[int, str], start: dict[str, float], wall: dict[str, float]
) -> History:
    """The history as machines write it: they count from ``start``, their wall clocks are ``wall`` wrong."""
    events: list[Event] = [
        dataclasses.replace(e, t_s=e.t_s - start[machine[e.slot]]) if e.slot in machine else e
        for e in history.events
    ]
    for slot, boot in machine.items():
        true = 100.0 + slot / 1000
        events.append(Clock(true - start[boot], slot, 1.7e9 + true + wall[boot], boot))
    return History.of(events)


def told(delays: list[list[float]], durations: list[float]) -> Story:
    """All ranks enter each operation at their own delay and complete it together, or a little later."""
    story = Story(size=len(delays[0]))
    for late, duration in zip(delays, durations, strict=True):
        begin = story.tick()
        over = begin + max(late) + duration
        for slot, delay in enumerate(late):
            story.now = begin + delay
            story.enter(slot, "all_reduce")
        for slot in range(story.size):
            story.now = over + 0.001 * slot
            story.complete(slot)
    return story


seconds = st.floats(0.0, 0.5)


@given(
    delays=st.lists(st.lists(seconds, min_size=6, max_size=6), min_size=1, max_size=8),
    durations=st.lists(st.floats(1e-4, 0.1), min_size=8, max_size=8),
    starts=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3),
    walls=st.lists(st.floats(-100, 100), min_size=3, max_size=3),
)
def test_the_true_offset_is_within_the_stated_error(
    delays: list[list[float]], durations: list[float], starts: list[float], walls: list[float]
) -> None:
    true = told(delays, durations[: len(delays)]).history
    machine = {slot: "abc"[slot // 2] for slot in range(6)}
    start = dict(zip("abc", starts, strict=True))
    raw = seen_by(true, machine, start, dict(zip("abc", walls, strict=True)))
    found = clocks.offsets(raw, machine, ["a", "b", "c"], waits=True)
    for boot in "bc":
        error = found[boot].error_s
        assert error is not None and error >= 0.0
        assert abs(found[boot].add_s - (start[boot] - start["a"])) <= error + 1e-6
    aligned, notes = clocks.aligned(raw)
    assert len(notes) == 2 and all("known to ±" in n for n in notes)
    _nothing_ends_before_all_entered(aligned)
    assert clocks.aligned(aligned) == (aligned, ())


def _nothing_ends_before_all_entered(history: History) -> None:
    last_in: dict[int, float] = {}
    for event in history.all(Entered):
        last_in[event.nth] = max(last_in.get(event.nth, -1e300), event.t_s)
    for done in history.all(Completed):
        assert done.t_s >= last_in[done.nth] - 1e-6


def test_one_machine_is_left_as_it_is() -> None:
    story = told([[0.0, 0.1]], [0.1])
    for slot in (0, 1):
        story.add(Clock(1.0, slot, 1.7e9, "a"))
    history = story.history
    assert clocks.aligned(history) == (history, ())
    without = Story(size=2).history
    assert clocks.aligned(without) == (without, ())


def test_without_operations_the_wall_clocks_tell_and_the_error_is_unknown() -> None:
    story = Story(size=2)
    raw = seen_by(story.history, {0: "a", 1: "b"}, {"a": 0.0, "b": 5000.0}, {"a": 0.0, "b": 0.25})
    found = clocks.offsets(raw, {0: "a", 1: "b"}, ["a", "b"], waits=True)
    assert found["b"].add_s == pytest.approx(5000.25)
    assert found["b"].error_s is None
    assert "wall clocks alone" in clocks.aligned(raw)[1][0]


def test_completions_that_only_say_queued_bound_nothing() -> None:
    story = told([[0.0, 0.1]] * 3, [0.1] * 3)
    raw = seen_by(story.history, {0: "a", 1: "b"}, {"a": 0.0, "b": 5000.0}, {"a": 0.0, "b": 0.25})
    assert "wall clocks alone" in clocks.aligned(raw, waits=False)[1][0]


def test_contradicting_operations_are_not_believed() -> None:
    story = Story(size=2)
    events = list(story.history.events)
    for nth, shift in ((1, 0.0), (2, 10.0)):
        for slot in (0, 1):
            t = 200.0 + 100 * nth + (shift if slot else 0.0)
            events.append(Entered(t, slot, "barrier", "default", nth, 1, nth, members=(0, 1)))
            events.append(Completed(t + 0.1, slot, "barrier", "default", nth, 1, nth))
    events += [Clock(1.0, 0, 50.0, "a"), Clock(1.0, 1, 52.0, "b")]
    found = clocks.offsets(History.of(events), {0: "a", 1: "b"}, ["a", "b"], waits=True)
    assert found["b"] == clocks.Offset(2.0, None)


def test_rows_of_a_mesh_with_one_name_are_not_taken_for_one_group() -> None:
    """Rows {0,2} and {1,3} over two machines: what one row does says nothing of the other."""
    story = Story(size=4)
    for row, at in (((0, 2), 200.0), ((1, 3), 900.0)):
        for slot in row:
            story.now = at
            story.enter(slot, "all_reduce", group="row", members=row)
        for slot in row:
            story.complete(slot)
    machine = {0: "a", 1: "a", 2: "b", 3: "b"}
    raw = seen_by(story.history, machine, {"a": 0.0, "b": 5000.0}, {"a": 0.0, "b": 0.0})
    found = clocks.offsets(raw, machine, ["a", "b"], waits=True)
    assert found["b"].add_s == pytest.approx(5000.0, abs=0.01)
    assert found["b"].error_s is not None
