"""A large history as few events: what was in order, and long ago, is left out.

A million operations as objects take a gigabyte. In a job that large nearly all of them were entered alike
by every member of their group, and completed: such operations are *settled*, they tell nothing of what went
wrong. Kept are the newest ones, the first of each group and the last of each rank in it, those that a fault
was aimed at, and everything that is not settled: another fingerprint, another order, no end. What is left
out is told by :class:`~chaoskit.history.LeftOut` (settled) or :class:`~chaoskit.history.Lost` (where more is
unsettled than there is room for: then the oldest and the newest of it are kept).

Settled is decided for blocks: so many consecutive numbers of one operation of a group. A sum over what each
rank entered there, and after what, is the same on all of them. A block is kept for all ranks or for none,
so positions can be compared as before. What is told is gone through twice and never held. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from chaoskit.history import Completed, Entered, Event, LeftOut, Lost, Replicated, Stepped
from chaoskit.history_file import BATCH, Batch
from chaoskit.judge.settled import CHECKSUMS, STEPS, Place, Series, Tally
from chaoskit.operations import OPEN, Forms, Rows, fit
from chaoskit.recorded import Recorded, batched, ordered

_LEAVE, _KEEP, _LOSE = 0, 1, 2
_GROUPS_AROUND = 4
"""The first difference is looked for in so many groups, the earliest ones."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many operations are kept: of the newest, of what is unsettled, and round the first difference."""

    newest: int = 60_000
    unsettled: int = 40_000
    around: int = 200  # of each rank
    block: int = 16  # consecutive numbers of an operation; a power of two

    @property
    def shift(self) -> int:
        return self.block.bit_length() - 1


ROOM, COARSE = Room(), Room(block=64)
LARGE = 200_000
"""A history of no more operations, steps and checksums is judged as it is."""
Told = Callable[[], tuple[Forms, Iterable[Event | Batch]]]
"""Begins to tell everything anew: events, and operations in the order of each rank. The numbers of forms are
the same each time."""


def events_of(recorded: Recorded) -> list[Event]:
    """Return the events of a history, condensed where it is large; in order of time."""
    if recorded.size <= LARGE:
        return recorded.all_events()
    forms = Forms()
    for form in recorded.forms:
        forms.number(form)
    return condensed(lambda: (forms, chain(_batches(recorded), recorded.events)))


def _batches(recorded: Recorded) -> Iterator[Batch]:
    for slot, rows in recorded.rows.items():
        for begin in range(0, len(rows), BATCH):
            yield Batch(slot, rows.part(begin, begin + BATCH))


def condensed(told: Told, room: Room = ROOM) -> list[Event]:
    """Return the events by which a history is judged as if it were whole; in order of time."""
    tally = Tally(room.shift)
    tally.see(*told())
    return kept(tally, told, room)


def kept(tally: Tally, told: Told, room: Room = ROOM) -> list[Event]:
    """Return the same of what has been gone through once."""
    frequent: list[Event] = []
    rare: list[Event] = []
    for event in _Sieve(tally, _chosen(tally, room)).through(*told()):
        (frequent if isinstance(event, (Entered, Completed)) else rare).append(event)
    return ordered(frequent, rare)


# ---------------------------------------------------------------- what is kept


@dataclass(frozen=True, slots=True)
class _Block:
    first_s: float
    series: Series
    index: int

    @property
    def count(self) -> int:
        return self.series.count[self.index]


@dataclass(slots=True)
class _Keeping:
    """For each series whether its blocks are kept. ``since_s``: from then on all are."""

    of: dict[int, bytearray]
    since_s: float = 0.0

    def at(self, block: _Block) -> int:
        return self.of[block.series.number][block.index]

    def put(self, block: _Block, what: int) -> None:
        self.of[block.series.number][block.index] = what


def _chosen(tally: Tally, room: Room) -> _Keeping:
    every = tally.series.values()
    keeping = _Keeping({series.number: bytearray(len(series.count)) for series in every})
    blocks = [_Block(t, s, i) for s in every for i, t in enumerate(s.first_s) if s.count[i]]
    blocks.sort(key=_first_s)
    unsettled = sorted((_Block(s.first_s[i], s, i) for s in every for i in tally.unsettled(s)), key=_first_s)
    for block in unsettled:
        keeping.put(block, _LOSE)
    half = room.unsettled // 2
    for block in (*_within(unsettled, half), *_within(reversed(unsettled), half)):
        keeping.put(block, _KEEP)
    for block in _around(tally, unsettled, blocks, room.around):
        keeping.put(block, _KEEP)
    for block in _ends(tally):
        keeping.put(block, _KEEP)
    keeping.since_s = blocks[0].first_s if blocks else 0.0
    newest = list(_within(reversed(blocks), room.newest))
    for block in newest:
        keeping.put(block, _KEEP)
    if len(newest) < len(blocks) and newest:
        keeping.since_s = newest[-1].first_s
    return keeping


def _first_s(block: _Block) -> float:
    return block.first_s


def _within(blocks: Iterable[_Block], room: int) -> Iterator[_Block]:
    """Yield the first of these, for so many operations."""
    for block in blocks:
        room -= block.count
        if room < 0:
            return
        yield block


def _around(tally: Tally, unsettled: list[_Block], blocks: list[_Block], around: int) -> Iterator[_Block]:
    """Yield what the members of a group entered shortly before they differ for the first time, and after; and
    round the first that the records of all of them still hold."""
    first: dict[tuple[Place, bool], _Block] = {}
    for block in unsettled:
        of = block.series
        if of.alone or of.place in (STEPS, CHECKSUMS):
            continue
        if tally.is_edge(of, block.index):
            first[of.place, True] = block
        else:
            first.setdefault((of.place, False), block)
    for (place, _), block in list(first.items())[: 2 * _GROUPS_AROUND]:
        same = [b for b in blocks if b.series.place == place]
        at = same.index(block)
        room = around * len(tally.members(place))
        yield from _within(reversed(same[:at]), room)
        yield from _within(same[at:], room)


def _ends(tally: Tally) -> Iterator[_Block]:
    """Yield the first block of each rank in each group, its last of each operation, and those of init."""
    for of in tally.slots.values():
        for series, index in of.first.values():
            yield _Block(0.0, series, index)
    for series in tally.series.values():
        for index in set(series.end.values()):
            yield _Block(0.0, series, index)
        if series.op == "init":
            for index in range(len(series.count)):
                yield _Block(0.0, series, index)


# ---------------------------------------------------------------- what comes through


class _Sieve:
    """Lets through what is kept, and counts what is not."""

    def __init__(self, tally: Tally, keeping: _Keeping) -> None:
        self._tally = tally
        self._keeping = keeping
        self._left_out: Counter[int] = Counter()
        self._messages: Counter[int] = Counter()
        self._lost: Counter[int] = Counter()
        self._gone: set[tuple[int, int]] = set()  # slot, seq of what is left out and has not ended

    def through(self, forms: Forms, told: Iterable[Event | Batch]) -> Iterator[Event]:
        """Yield the events that are kept, and at the end what is not."""
        for said in batched(forms, told):
            if isinstance(said, Batch):
                yield from self._rows(said.slot, said.rows, forms)
                yield from filter(self._is_kept, said.events)
            elif self._is_kept(said):
                yield said
        yield from self._told()

    def _rows(self, slot: int, rows: Rows, forms: Forms) -> Iterator[Event]:
        series = {form: self._tally.series_of(form, forms) for form in set(rows.form)}
        if self._are_left_out(rows, series.values()):
            self._left_out[slot] += len(rows)
            self._messages[slot] += sum(rows.form.count(form) for form, of in series.items() if of.alone)
            kept: list[int] = []
        else:
            fates = [self._fate(series[form], nth) for form, nth in zip(rows.form, rows.nth, strict=True)]
            kept = [row for row, fate in enumerate(fates) if fate == _KEEP]
            self._lost[slot] += fates.count(_LOSE)
            self._left_out[slot] += fates.count(_LEAVE)
            self._messages[slot] += sum(
                fate == _LEAVE and series[form].alone for fate, form in zip(fates, rows.form, strict=True)
            )
        if len(kept) < len(rows) and OPEN in rows.how:  # its end is told later
            left = set(range(len(rows))) - set(kept)
            self._gone.update((slot, rows.seq[row]) for row in left if rows.how[row] == OPEN)
        if kept:
            yield from (rows if len(kept) == len(rows) else rows.picked(kept)).events(slot, forms.known)

    def _are_left_out(self, rows: Rows, series: Iterable[Series]) -> bool:
        """Is all of it left out, as far as a quick look tells?"""
        shift = self._tally.shift
        low, high = min(rows.nth, default=0) >> shift, max(rows.nth, default=0) >> shift
        for of in series:
            part = self._keeping.of[of.number][max(0, low - of.base) : max(0, high - of.base + 1)]
            if of.wild or part.count(_LEAVE) < len(part):
                return False
        return True

    def _fate(self, series: Series, nth: int) -> int:
        keeping, index = self._keeping.of[series.number], (nth >> self._tally.shift) - series.base
        return keeping[index] if 0 <= index < len(keeping) else _KEEP

    def _is_kept(self, event: Event) -> bool:
        if isinstance(event, Completed):
            return not self._is_gone(event)
        if not isinstance(event, (Stepped, Replicated)) or not fit(event):
            return True
        fate = self._fate(self._tally.series_of_event(event), event.step)
        return fate == _KEEP or (isinstance(event, Replicated) and event.final)

    def _is_gone(self, event: Completed) -> bool:
        """Is what this ends left out?"""
        key = (event.slot, event.seq)
        if key not in self._gone:
            return False
        self._gone.discard(key)
        return True

    def _told(self) -> Iterator[Event]:
        since_s = self._keeping.since_s
        for slot, count in sorted(self._lost.items()):
            if count:
                yield Lost(since_s, slot, count)
        for slot, count in sorted(self._left_out.items()):
            # Where numbers are missing, or twice, the judge has to see it.
            if count and (slot in self._tally.lost or self._tally.slots[slot].whole):
                yield LeftOut(since_s, slot, count, self._messages[slot])
