"""Which operations of a large history are settled: every member entered them alike, and completed them.

Looked at are blocks: so many consecutive numbers of one operation of a group. Of each rank there is a sum
over what it entered in the block, with which fingerprint, and after which other operation of the group. Where
the sums are the same on all members, so is the order. Takes some bytes for each block, and never holds an
operation. Has no opinion of what may be left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from chaoskit.history import (
    Completed,
    Event,
    Held,
    Identity,
    Injected,
    Lost,
    OpFailed,
    Replicated,
    Started,
    Stepped,
)
from chaoskit.history_file import Batch
from chaoskit.judge.job import P2P
from chaoskit.operations import COMPLETED, Forms, Rows, fit
from chaoskit.recorded import batched

INF = float("inf")
_MASK = 0xFFFF_FFFF_FFFF_FFFF
_AHEAD = 1 << 16
"""Blocks so far from all that are known are no numbers that a program has come to."""
_DIGESTS_MAX = 512

Place = tuple[str, tuple[int, ...]]
"""A group: its name and members."""
STEPS: Place = ("the steps", ())
CHECKSUMS: Place = ("the checksums", ())


@dataclass(slots=True, eq=False)
class Series:
    """One operation of one group (or the steps, or the checksums of one thing), with all of its numbers.

    Block ``index`` has the numbers from ``(base + index) << shift`` on. ``alone``: what each rank does is its
    own business.
    """

    number: int
    place: Place
    op: str
    alone: bool
    base: int = -1
    count: array[int] = field(default_factory=lambda: array("I"))
    first_s: array[float] = field(default_factory=lambda: array("d"))
    sums: dict[int, array[int]] = field(default_factory=dict)  # of each slot
    begin: dict[int, int] = field(default_factory=dict)  # of each slot: its first block
    end: dict[int, int] = field(default_factory=dict)  # and its last
    bad: set[int] = field(default_factory=set)  # blocks with an operation that has not completed
    wild: bool = False  # there are numbers that no block is for

    def block(self, at: int) -> int:
        """Return the index of block number ``at``, for which there is room then; -1: it is no sane number."""
        if self.base < 0:
            self.base = max(0, at - _AHEAD)
        index = at - self.base
        if index >= len(self.count):
            if index > len(self.count) + 2 * _AHEAD:
                self.wild = True
                return -1
            more = index + 1 - len(self.count)
            self.count.extend(array("I", bytes(4 * more)))
            self.first_s.extend(array("d", [INF]) * more)
            for sums in self.sums.values():
                sums.extend(array("Q", bytes(8 * more)))
        self.wild |= index < 0
        return max(index, -1)

    def of(self, slot: int) -> array[int]:
        """Return the sums of a slot."""
        found = self.sums.get(slot)
        if found is None:
            found = self.sums[slot] = array("Q", bytes(8 * len(self.count)))
        return found


@dataclass(slots=True)
class Of:
    """What is known of one slot."""

    entered: int = 0
    highest: int = 0  # seq
    total: int = 0  # of all seq
    first_s: float = INF
    chains: dict[Place, int] = field(default_factory=dict)  # the last operation in each group
    open: dict[int, tuple[Series, int]] = field(default_factory=dict)  # seq -> block
    first: dict[Place, tuple[Series, int]] = field(default_factory=dict)  # the first block in each group

    @property
    def whole(self) -> bool:
        """Is each operation there once, as far as sums tell?"""
        return self.entered == self.highest and self.total == self.entered * (self.entered + 1) // 2


_Digest = list[tuple[Series, int, int, int, int]]
"""Series, block, what is added to the sum, how many operations, and the first row of them."""


class Tally:
    """Goes through a history once. ``shift``: a block has two to the power of it numbers."""

    def __init__(self, shift: int) -> None:
        self.shift = shift
        self.series: dict[tuple[Place, str], Series] = {}
        self.slots: dict[int, Of] = {}
        self.started: set[int] = set()
        self.ranks: dict[int, int] = {}
        self.lost: set[int] = set()
        self.aimed_at: set[tuple[str, str, int]] = set()  # op, group, nth of faults
        self.size = 0  # operations, steps, checksums
        self._failed: set[tuple[str, str, int]] = set()
        self._forms: list[Series] = []
        self._digests: dict[tuple[object, ...], tuple[_Digest, dict[Place, int]]] = {}

    def see(self, forms: Forms, told: Iterable[Event | Batch]) -> None:
        """Look at everything that is told."""
        for said in batched(forms, told):
            if isinstance(said, Batch):
                if len(said.rows):
                    self._batch(said.slot, said.rows, forms)
                for event in said.events:
                    self._event(event)
            else:
                self._event(said)
        self._end()

    def series_of(self, form: int, forms: Forms) -> Series:
        """Return the series that operations of a form belong to."""
        while len(self._forms) <= form:
            new = forms.known[len(self._forms)]
            self._forms.append(self._series((new.group, new.members), new.op, new.op in P2P))
        return self._forms[form]

    def series_of_event(self, event: Stepped | Replicated) -> Series:
        if isinstance(event, Stepped):
            return self._series(STEPS, "", True)
        return self._series(CHECKSUMS, str(event.ordinal), False)

    def _series(self, place: Place, op: str, alone: bool) -> Series:
        found = self.series.get((place, op))
        if found is None:
            found = self.series[place, op] = Series(len(self.series) + 1, place, op, alone)
        return found

    # ------------------------------------------------------------ operations

    def _batch(self, slot: int, rows: Rows, forms: Forms) -> None:
        of = self.slots.setdefault(slot, Of())
        self.size += len(rows)
        of.entered += len(rows)
        of.highest = max(of.highest, *rows.seq)
        of.total += sum(rows.seq)
        of.first_s = min(of.first_s, rows.entered_s[0])
        for series, index, added, count, row in self._digest(of, rows, forms):
            self._add(series, slot, index, added, count, rows.entered_s[row])
        if rows.how.count(COMPLETED) < len(rows):
            for row, how in enumerate(rows.how):
                if how != COMPLETED:
                    series = self.series_of(rows.form[row], forms)
                    of.open[rows.seq[row]] = (series, series.block(rows.nth[row] >> self.shift))

    def _digest(self, of: Of, rows: Rows, forms: Forms) -> _Digest:
        """Work out what rows add to the sums: once for all ranks that entered the same after the same."""
        used = [self.series_of(form, forms) for form in sorted(set(rows.form))]
        before = tuple(of.chains.get(series.place, 0) for series in used)
        key = (rows.form.tobytes(), rows.nth.tobytes(), rows.fingerprint.tobytes(), before)
        known = self._digests.get(key)
        if known is None:
            if len(self._digests) >= _DIGESTS_MAX:
                self._digests.clear()
            chains = {series.place: of.chains.get(series.place, 0) for series in used}
            known = self._digests[key] = (self._worked_out(rows, chains), chains)
        of.chains.update(known[1])
        return known[0]

    def _worked_out(self, rows: Rows, chains: dict[Place, int]) -> _Digest:
        found: dict[tuple[int, int], list[int]] = {}
        used = {form: self._forms[form] for form in set(rows.form)}
        columns = zip(rows.form, rows.nth, rows.fingerprint, strict=True)
        for row, (form, nth, fingerprint) in enumerate(columns):
            series = used[form]
            cell = found.setdefault((form, nth >> self.shift), [0, 0, row])
            cell[1] += 1
            if series.alone:
                continue
            cell[0] += hash((nth, fingerprint, chains[series.place]))
            chains[series.place] = series.number << 32 | nth
        return [
            (used[form], used[form].block(at), added, count, row)
            for (form, at), (added, count, row) in found.items()
        ]

    def _add(self, series: Series, slot: int, index: int, added: int, count: int, t_s: float) -> None:
        if index < 0:
            return
        sums = series.of(slot)
        sums[index] = (sums[index] + added) & _MASK
        series.count[index] += count
        series.first_s[index] = min(series.first_s[index], t_s)
        series.begin.setdefault(slot, index)
        series.end[slot] = index
        self.slots[slot].first.setdefault(series.place, (series, index))

    # ------------------------------------------------------------ events

    def _event(self, event: Event) -> None:
        match event:
            case Completed() if event.slot in self.slots:
                self.slots[event.slot].open.pop(event.seq, None)
            case OpFailed():
                self._failed.add((event.op, event.group, event.nth))
            case Stepped() | Replicated() if fit(event):
                self.size += 1
                self.slots.setdefault(event.slot, Of())
                checksum = 0 if isinstance(event, Stepped) else event.checksum
                series = self.series_of_event(event)
                index = series.block(event.step >> self.shift)
                self._add(series, event.slot, index, hash((event.step, checksum)), 1, event.t_s)
            case Injected() | Held():
                self.aimed_at.add((event.op, event.group, event.nth))
            case Identity():
                self.ranks.setdefault(event.slot, event.rank if event.rank >= 0 else event.slot)
            case Started():
                self.started.add(event.slot)
            case Lost():
                self.lost.add(event.slot)
            case _:
                pass

    def _end(self) -> None:
        for of in self.slots.values():
            for series, index in of.open.values():
                series.bad.add(index)
        named = self._failed | self.aimed_at
        for series in self.series.values():
            for op, group, nth in named:
                if (op, group) == (series.op, series.place[0]):
                    series.bad.add((nth >> self.shift) - series.base)

    # ------------------------------------------------------------ what is settled

    def unsettled(self, series: Series) -> Sequence[int]:
        """Return the blocks of which something is left to be said."""
        if series.alone:
            return sorted(index for index in series.bad if 0 <= index < len(series.count))
        members = self.members(series.place)
        if not members or set(series.sums) - members:
            return [index for index, count in enumerate(series.count) if count]
        return [i for i, n in enumerate(series.count) if n and not self._is_settled(series, i, members)]

    def members(self, place: Place) -> set[int]:
        """Return the slots of the members of a group that were started."""
        of = place[1]
        return {slot for slot in self.started if not of or self.ranks.get(slot, slot) in of}

    def _is_settled(self, series: Series, index: int, members: set[int]) -> bool:
        if index in series.bad:
            return False
        sums = {series.of(slot)[index] for slot in members if not self._is_gone(series, index, slot)}
        return len(sums) == 1 and 0 not in sums

    def is_edge(self, series: Series, index: int) -> bool:
        """Is a block unsettled for what was overwritten on some rank, and maybe for nothing else?"""
        gone = self.lost & self.members(series.place)
        return any(index <= series.begin.get(slot, -1) for slot in gone)

    def _is_gone(self, series: Series, index: int, slot: int) -> bool:
        """Was what this slot may have entered there overwritten?"""
        if slot not in self.lost:
            return False
        begin = series.begin.get(slot)
        if begin is None:
            return series.first_s[index] < (self.slots[slot].first_s if slot in self.slots else INF)
        return index < begin
