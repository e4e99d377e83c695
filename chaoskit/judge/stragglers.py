"""Whom did the others wait for, though all went well? From the times at which ranks entered operations.

A rank is late to an operation by its own entry minus the median of the other members' entries. Time in which
it sat in another operation itself, waiting for somebody, is not its own lateness. What counts is by how much
more than its peers it is late in a step. A rank is named

- as a constant straggler if from the beginning to the end of the run most steps are late by enough to matter;
- as a one-off if it was once far later than anybody else ever was in this run.

The first operation of each group is left out: ranks do not start at the same moment. Time for which a rank
had to wait for a core longer than its peers is the machine's, and is taken off. Names nobody where the
operations of a step cannot be told (send and recv only). Pure; not an opinion on who broke a job. The
thresholds were measured on healthy 4-rank runs on two cores, alone and among 20 runnable processes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from chaoskit.history import Entered, History, RunDelay
from chaoskit.judge.job import P2P, Job
from chaoskit.model import Culprit

CONSTANT_S = 0.005
"""Later than the peers by so much in the median step."""
CONSTANT_SHARE = 0.1
"""And by this share of a step: less is not worth a word."""
CONSTANT_PARTS = 3
"""In each part of the run: a busy core makes a rank late for a while, seldom for all of it."""
CONSTANT_STEPS = 0.85
"""And in this share of all steps."""
STEPS_MIN = 10
"""Fewer steps tell nothing constant."""
ONE_OFF_S = 0.5
"""A one-off is that late: among 20 runnable processes on two cores nobody was by more than 0.27 s."""
ONE_OFF_STEPS = 3.0
"""And by so many steps: some take longer than others by nature."""
ONE_OFF_USUAL = 3.0
"""And by so many times what nine of ten steps of the other ranks are late by."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Who was waited for, and a sentence for each."""

    ranks: tuple[Culprit, ...] = ()
    notes: tuple[str, ...] = ()


def find(history: History, job: Job) -> Stragglers:
    """Return the ranks that the others waited for."""
    rounds = _rounds(job)
    units = _units(rounds)
    if not units:
        return Stragglers()
    begin = min(min(r.entries.values()) for r in rounds)
    span = max(max(r.entries.values()) for r in rounds) - begin
    late = {slot: _lateness(slot, units, rounds) for slot in sorted({s for r in rounds for s in r.entries})}
    excess = _excess_delay(history, late)
    ends = [max(r.last for r in unit) for unit in units]
    step_s = median(b - a for a, b in pairwise(ends)) if len(ends) > 1 else 0.0
    ranks, notes = [], []
    for view in job.ranks:
        if view.slot not in late:
            continue
        peers = [late[s] for s in late if s != view.slot]
        told = _told(late[view.slot], peers, excess.get(view.slot, 0.0), step_s)
        if told:
            own = late[view.slot]
            share = f"{min(1.0, sum(own) / span):.0%}" if span > 0.0 else "0%"
            ranks.append(Culprit("rank", str(view.rank)))
            notes.append(f"rank {view.rank} was waited for {told}, {share} of the time")
    return Stragglers(tuple(ranks), tuple(notes))


def _told(own: Sequence[float], peers: Sequence[Sequence[float]], excess: float, step_s: float) -> str:
    """Return how a rank was late, in words, if it was: ``own`` and ``peers`` are seconds in each step."""
    net = [
        max(0.0, mine - median(theirs)) for mine, theirs in zip(own, zip(*peers, strict=True), strict=True)
    ]
    floor = max(CONSTANT_S, CONSTANT_SHARE * step_s)
    if _is_constant(net, floor, excess):
        return f"in {sum(n >= floor for n in net)} of {len(net)} steps"
    others = sorted(seconds for peer in peers for seconds in peer)
    rare = max(ONE_OFF_S, ONE_OFF_STEPS * step_s, ONE_OFF_USUAL * others[len(others) * 9 // 10])
    unexplained = max(0.0, excess - (sum(net) - max(net)))  # by lateness in the other steps
    if max(net) - unexplained < rare:
        return ""
    often = sum(n >= rare for n in net)
    return f"once, for {max(net):.3g} s" if often == 1 else f"{often} times, for up to {max(net):.3g} s"


def _is_constant(net: Sequence[float], floor: float, excess: float) -> bool:
    count, total = len(net), sum(net)
    if count < STEPS_MIN or total <= excess:
        return False
    own = [n * (1.0 - excess / total) for n in net]
    ends = [count * part // CONSTANT_PARTS for part in range(CONSTANT_PARTS + 1)]
    often = sum(n >= floor for n in own) >= CONSTANT_STEPS * count
    return often and all(median(own[a:b]) >= floor for a, b in pairwise(ends))


# ---------------------------------------------------------------- operations that all members entered


@dataclass(frozen=True, slots=True)
class _Round:
    """One operation: when each member (slot) entered it, and the step in which the first did."""

    step: int
    nth: int
    entries: dict[int, float]

    @property
    def last(self) -> float:
        return max(self.entries.values())


def _rounds(job: Job) -> list[_Round]:
    since_s = max((v.whole_since_s for v in job.ranks), default=0.0)
    slots = {v.rank: v.slot for v in job.ranks}
    if len(slots) != len(job.ranks):
        return []  # two claim one rank: nobody's lateness is known
    seen: dict[tuple[str, tuple[int, ...], str, int], dict[int, Entered]] = defaultdict(dict)
    first: dict[tuple[int, str], int] = {}
    for view in job.ranks:
        for event in view.entered:
            if event.op in P2P or event.op == "init":
                continue
            first.setdefault((view.slot, event.group), event.seq)
            if event.seq != first[view.slot, event.group]:
                seen[event.group, event.members, event.op, event.nth][view.slot] = event
    rounds = []
    for (_, members, _, nth), entered in seen.items():
        wanted = members or tuple(slots)
        if min(e.t_s for e in entered.values()) < since_s:
            continue
        if len(wanted) > 1 and {slots.get(r, -1) for r in wanted} == set(entered):
            step = min(e.step for e in entered.values())
            rounds.append(_Round(step, nth, {slot: e.t_s for slot, e in entered.items()}))
    return sorted(rounds, key=lambda r: r.last)


def _units(rounds: Sequence[_Round]) -> list[list[_Round]]:
    """Return the operations by step; by their numbers where the script has no steps."""
    has_steps = len({one.step for one in rounds}) > 2
    found: dict[int, list[_Round]] = defaultdict(list)
    for one in rounds:
        found[one.step if has_steps else one.nth].append(one)
    return [found[number] for number in sorted(found)]


# ---------------------------------------------------------------- lateness


def _lateness(slot: int, units: Sequence[Sequence[_Round]], rounds: Sequence[_Round]) -> list[float]:
    """Return for each step the seconds for which the others waited for this rank, by its own doing."""
    waits = _merged((r.entries[slot], r.last) for r in rounds if slot in r.entries)
    starts = [w[0] for w in waits]
    found = []
    for unit in units:
        late = _merged(_late(r.entries, slot) for r in unit if slot in r.entries)
        found.append(sum(end - begin - _overlap((begin, end), waits, starts) for begin, end in late))
    return found


def _late(entries: dict[int, float], slot: int) -> Interval:
    others = median(t for s, t in entries.items() if s != slot)
    return (others, max(others, entries[slot]))


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for begin, end in sorted(i for i in intervals if i[1] > i[0]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _overlap(span: Interval, merged: Sequence[Interval], starts: Sequence[float]) -> float:
    begin, end = span
    total = 0.0
    for index in range(max(0, bisect_left(starts, begin) - 1), len(merged)):
        low, high = merged[index]
        if low >= end:
            break
        total += max(0.0, min(end, high) - max(begin, low))
    return total


def _excess_delay(history: History, slots: Iterable[int]) -> dict[int, float]:
    """Return how much longer than its peers each rank waited for a core, in seconds over its whole life."""
    delay = {e.slot: e.seconds for e in history.all(RunDelay)}
    usual = median(delay.values()) if delay else 0.0
    return {slot: max(0.0, delay.get(slot, usual) - usual) for slot in slots}
