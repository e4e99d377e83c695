"""Puts histories of several machines on one clock: that of the machine that holds the first rank.

Each machine counts its seconds from its own start. Its ranks say once what the wall clock showed: as good as
the wall clocks are. Better is what the operations tell: in one that synchronizes (a barrier,
an all_reduce) no rank is done before every rank has entered. Each such pair bounds the offset between two
machines; the middle of what all of them allow is taken, and half its width is the error. Pure.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass

from chaoskit.history import Clock, Completed, Entered, Event, History

SYNCHRONIZING = frozenset({"all_reduce", "all_gather", "barrier", "reduce_scatter"})
"""Operations that no rank completes before all have entered. Not where the host does not wait (NCCL)."""
INF = float("inf")


@dataclass(frozen=True, slots=True)
class Offset:
    """What is added to a machine's times. ``error_s`` is None where only the wall clocks tell."""

    add_s: float
    error_s: float | None


def aligned(history: History, waits: bool = True) -> tuple[History, tuple[str, ...]]:
    """Return the history on one clock, and what is to be said of that; unchanged if it is of one machine.

    ``waits``: a completion means that the operation was over (gloo), not only that it was queued (NCCL).
    """
    machine = {e.slot: e.boot for e in history.all(Clock)}
    home = machine[min(s for s in machine if s >= 0)] if any(s >= 0 for s in machine) else ""
    boots = [home, *sorted({b for b in machine.values() if b != home})]
    if len(boots) < 2:
        return history, ()
    found = offsets(history, machine, boots, waits)
    shift = {slot: found[boot].add_s for slot, boot in machine.items()}
    elsewhere = shift.get(-1, 0.0)
    events = (_shifted(e, shift.get(e.slot, elsewhere), home) for e in history.events)
    return History.of(events), tuple(_note(boot, machine, found[boot]) for boot in boots[1:])


def _shifted(event: Event, by_s: float, home: str) -> Event:
    """A shifted clock is that of the reference machine: to align once more changes nothing."""
    changed = dataclasses.replace(event, t_s=event.t_s + by_s)
    return dataclasses.replace(changed, boot=home) if isinstance(changed, Clock) else changed


def _note(boot: str, machine: dict[int, str], offset: Offset) -> str:
    slots = sorted(slot for slot, of in machine.items() if of == boot and slot >= 0)
    listed = ", ".join(map(str, slots[:8])) + (", …" if len(slots) > 8 else "")
    of = f"processes {listed}" if slots else "the runner"
    if offset.error_s is None:
        return f"clock of {of}: set by the wall clocks alone, error unknown"
    return f"clock of {of}: known to ± {offset.error_s * 1e3:.3g} ms"


def offsets(history: History, machine: dict[int, str], boots: list[str], waits: bool) -> dict[str, Offset]:
    """Return what to add to the times of each of ``boots``, of which the first is the reference."""
    wall = _by_wall(history, boots)
    upper = _closed(_bounds(history, machine, boots) if waits else {}, boots)
    home = boots[0]
    if any(upper[b, b] < 0.0 for b in boots):  # no offsets fit: something was not what it seemed
        return {b: Offset(wall[b], None if b != home else 0.0) for b in boots}
    found = {home: Offset(0.0, 0.0)}
    for boot in boots[1:]:
        high, low = upper[home, boot], -upper[boot, home]
        if high < INF and low > -INF:
            found[boot] = Offset((high + low) / 2, (high - low) / 2)
        else:
            found[boot] = Offset(min(max(wall[boot], low), high), None)
    return found


def _by_wall(history: History, boots: list[str]) -> dict[str, float]:
    """Offsets by the wall clocks: the median of what the ranks of each machine said."""
    said: dict[str, list[float]] = defaultdict(list)
    for event in history.all(Clock):
        said[event.boot].append(event.wall_s - event.t_s)
    middle = {boot: sorted(values)[len(values) // 2] for boot, values in said.items()}
    return {boot: middle[boot] - middle[boots[0]] for boot in boots}


_Operation = tuple[str, tuple[int, ...], str, int]
Bounds = dict[tuple[str, str], float]
"""(a, b) -> the most that b's offset may be above a's."""


def _bounds(history: History, machine: dict[int, str], boots: list[str]) -> Bounds:
    """From each operation: the latest entry on one machine is not after the first completion on another.

    t_in + offset(a) <= t_out + offset(b), so offset(a) - offset(b) <= t_out - t_in.
    """
    entries: dict[_Operation, dict[str, float]] = defaultdict(dict)
    ends: dict[_Operation, dict[str, float]] = defaultdict(dict)
    members: dict[tuple[int, int], tuple[int, ...]] = {}
    for event in history.events:
        boot = machine.get(event.slot)
        if boot is None:
            continue
        if isinstance(event, Entered) and _synchronizes(event):
            members[event.slot, event.seq] = event.members
            entered = entries[event.group, event.members, event.op, event.nth]
            entered[boot] = max(entered.get(boot, -INF), event.t_s)
        elif isinstance(event, Completed) and (event.slot, event.seq) in members:
            ended = ends[event.group, members[event.slot, event.seq], event.op, event.nth]
            ended[boot] = min(ended.get(boot, INF), event.t_s)
    found: Bounds = {}
    for key, first_out in ends.items():
        for a, last_in in entries[key].items():
            for b, out in first_out.items():
                if a != b:
                    found[b, a] = min(found.get((b, a), INF), out - last_in)
    return found


def _synchronizes(event: Entered) -> bool:
    """An operation on nothing (a shape with a 0) waits for nobody."""
    return event.op in SYNCHRONIZING and "0" not in event.shape.replace(",", "x").split("x")


def _closed(bounds: Bounds, boots: list[str]) -> Bounds:
    """The tightest bounds that follow from all of ``bounds`` together (Floyd and Warshall)."""
    upper = {(a, b): 0.0 if a == b else bounds.get((a, b), INF) for a in boots for b in boots}
    for via in boots:
        for a in boots:
            for b in boots:
                upper[a, b] = min(upper[a, b], upper[a, via] + upper[via, b])
    return upper
