"""What a user's program does when nothing goes wrong, read off the history of one undisturbed run.

Pure: a function of the history. A fault's trigger is fitted to it (:mod:`chaoskit.scenario.adapting`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from chaoskit.history import (
    BATCHES,
    Completed,
    Entered,
    Event,
    Finished,
    History,
    Identity,
    Reached,
    Stepped,
)
from chaoskit.model import Workload

DEFAULT_GROUP: Final = "default"
BETWEEN_TWO: Final = frozenset({"send", "recv", "coalesced"})
"""Operations that not all of a group take part in."""
_INIT: Final = "init"
_SIGNS = (Entered, Completed, Stepped, Finished)
"""Events that show progress."""


@dataclass(frozen=True, slots=True)
class Issued:
    """One operation that a rank entered: its ``nth`` per op and group, during ``step``, both from 1."""

    op: str
    group: str
    nth: int
    step: int
    has_tensors: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """What each rank (by slot) issued, in order; steps and batches are what every rank came to."""

    issued: Mapping[int, tuple[Issued, ...]] = field(default_factory=dict)
    steps: int = 0
    batches: int = 0
    duration_s: float = 0.0
    pace_s: float = 0.0
    """The longest that any rank took from one sign of progress to the next, once its group had formed."""
    started_s: float = 0.0
    """The longest that any rank took to the first of them, the forming of groups aside."""

    @property
    def slots(self) -> tuple[int, ...]:
        return tuple(sorted(self.issued))

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(one.group for calls in self.issued.values() for one in calls)

    def count(self, op: str, group: str, slots: Collection[int], step: int = 0) -> int:
        """Return how often each of ``slots`` issues the operation at least, with ``step`` in that one."""
        return min((self._count(op, group, slot, step) for slot in slots), default=0)

    def _count(self, op: str, group: str, slot: int, step: int) -> int:
        mine = [i for i in self.issued.get(slot, ()) if (i.op, i.group) == (op, group)]
        if step:
            return sum(i.step == step for i in mine)
        return max((i.nth for i in mine), default=0)  # the oldest may not have been kept

    def busiest(self, group: str, slots: Collection[int], *, with_tensors: bool) -> str:
        """Return the operation of all members that ``slots`` issue most in ``group``; empty if none is."""
        ops = Counter(
            one.op
            for slot in slots
            for one in self.issued.get(slot, ())
            if one.group == group and one.op not in BETWEEN_TWO and (one.has_tensors or not with_tensors)
        )
        return next((op for op, _ in ops.most_common() if self.count(op, group, slots)), "")

    def before_another(self, slots: Collection[int]) -> Iterator[Issued]:
        """Yield what is followed by another operation in its group, in the same way on each of ``slots``."""
        found = [list(self._turns(slot)) for slot in slots]
        others = [set(turns) for turns in found[1:]]
        for turn in found[0] if found else ():
            if all(turn in other for other in others):
                yield turn

    def _turns(self, slot: int) -> Iterator[Issued]:
        last: dict[str, Issued] = {}
        for one in self.issued.get(slot, ()):
            if one.op in BETWEEN_TWO:
                continue
            before = last.get(one.group)
            if before is not None and before.op != one.op:
                yield before
            last[one.group] = one


def survey_of(history: History) -> Survey:
    """Return what the ranks of ``history`` did."""
    issued: dict[int, list[Issued]] = {event.slot: [] for event in history.all(Identity)}
    for event in history.all(Entered):
        if event.op != _INIT:
            one = Issued(event.op, event.group, event.nth, event.step, bool(event.shape))
            issued.setdefault(event.slot, []).append(one)
    steps = dict.fromkeys(issued, 0)
    for done in history.all(Stepped):
        steps[done.slot] = max(steps.get(done.slot, 0), done.step)
    batches = dict.fromkeys(issued, 0)
    for reached in history.all(Reached):
        if reached.what == BATCHES:
            batches[reached.slot] = max(batches.get(reached.slot, 0), reached.count)
    return Survey(
        {slot: tuple(calls) for slot, calls in issued.items()},
        min(steps.values(), default=0),
        min(batches.values(), default=0),
        _duration_s(history),
        max((_longest_gap_s(history, slot) for slot in issued), default=0.0),
        max((_start_s(history, slot) for slot in issued), default=0.0),
    )


def _start_s(history: History, slot: int) -> float:
    begun = next((e.t_s for e in history.all(Identity) if e.slot == slot), None)
    signs = (e for e in history.events if e.slot == slot and isinstance(e, (Completed, Stepped, Finished)))
    first = next((e.t_s for e in signs if not (isinstance(e, Completed) and e.op == _INIT)), None)
    return 0.0 if begun is None or first is None else max(0.0, first - begun)


def _longest_gap_s(history: History, slot: int) -> float:
    formed = next((e.t_s for e in history.all(Completed) if e.slot == slot and e.op == _INIT), None)
    if formed is None:
        return 0.0
    times = [e.t_s for e in history.events if e.slot == slot and isinstance(e, _SIGNS) and e.t_s >= formed]
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def _duration_s(history: History) -> float:
    """From the first rank's start to the last thing that any did."""
    starts = [event.t_s for event in history.all(Identity)]
    ends = [event.t_s for event in history.all(Event) if event.slot >= 0]
    return max(ends) - min(starts) if starts and ends else 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What users' programs do by themselves, each in one undisturbed run; ``broken``: why one of them cannot
    be used."""

    surveys: Mapping[Workload, Survey] = field(default_factory=dict)
    broken: Mapping[Workload, str] = field(default_factory=dict)

    def __contains__(self, program: object) -> bool:
        return program in self.surveys or program in self.broken
