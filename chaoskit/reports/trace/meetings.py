"""Which operations of different ranks are one: the same collective, or a send and its recv. Pure.

A place in a history is ``slot << ROW_BITS | row``: one number, as there are hundreds of thousands.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chaoskit.recorded import Form, Recorded, Rows

ROW_BITS = 32
_ROW = (1 << ROW_BITS) - 1
SEND, RECV = "send", "recv"


@dataclass(frozen=True, slots=True)
class Last:
    """Who entered a collective last, and when; ``absent`` are members that never did."""

    slot: int
    row: int
    entered_s: float
    absent: tuple[int, ...] = ()


class Meetings:
    """The collectives of a history, and who entered each of them."""

    def __init__(self, recorded: Recorded, rank_of: Mapping[int, int]) -> None:
        self._rows = recorded.rows
        self._rank_of = rank_of
        self._members: list[tuple[int, ...]] = []
        self._kind_of_form = self._kinds(recorded.forms)
        self._places: dict[int, array[int]] = {}
        for slot, rows in sorted(recorded.rows.items()):
            for row, (form, nth) in enumerate(zip(rows.form, rows.nth, strict=True)):
                kind = self._kind_of_form[form]
                if kind >= 0:
                    places = self._places.setdefault(kind << ROW_BITS | nth, array("Q"))
                    places.append(slot << ROW_BITS | row)
        self._last = {key: self._last_of(key, places) for key, places in self._places.items()}

    def _kinds(self, forms: tuple[Form, ...]) -> list[int]:
        """The number of the collectives each form belongs to; -1 for what only two ranks are in."""
        numbers: dict[tuple[str, str, tuple[int, ...]], int] = {}
        kinds = []
        for form in forms:
            if form.peer >= 0 or form.op in (SEND, RECV):
                kinds.append(-1)
                continue
            kind = (form.op, form.group, form.members)
            if kind not in numbers:
                numbers[kind] = len(numbers)
                self._members.append(form.members)
            kinds.append(numbers[kind])
        return kinds

    def _last_of(self, key: int, places: array[int]) -> Last:
        slot, row = max((divmod(p, _ROW + 1) for p in places), key=lambda p: self._rows[p[0]].entered_s[p[1]])
        members = self._members[key >> ROW_BITS]
        absent: tuple[int, ...] = ()
        if len(members) > len(places):
            there = {self._rank_of.get(p >> ROW_BITS, p >> ROW_BITS) for p in places}
            absent = tuple(m for m in members if m not in there)
        return Last(slot, row, self._rows[slot].entered_s[row], absent)

    def last(self, form: int, nth: int) -> Last | None:
        """Return who entered the ``nth`` operation of this form last; None where nobody else is in it."""
        kind = self._kind_of_form[form]
        return None if kind < 0 else self._last[kind << ROW_BITS | nth]

    def waits(self, most: int) -> Iterator[tuple[Last, int, int]]:
        """Yield the last one and the slot and row of each that waited for it.

        With more than ``most`` operations only of the one that waited longest, but of all where the
        operation did not end well.
        """
        few = sum(len(places) for places in self._places.values()) <= most
        for key, places in self._places.items():
            last = self._last[key]
            waiting = [p for p in places if self._waited(p, last)]
            if not few and len(waiting) > 1 and all(self._ended_well(p) for p in places):
                waiting = [min(waiting, key=lambda p: self._rows[p >> ROW_BITS].entered_s[p & _ROW])]
            for place in waiting:
                yield last, place >> ROW_BITS, place & _ROW

    def _waited(self, place: int, last: Last) -> bool:
        rows, row = self._rows[place >> ROW_BITS], place & _ROW
        ended_s = rows.ended_s[row]
        return rows.entered_s[row] < last.entered_s and (math.isnan(ended_s) or ended_s > last.entered_s)

    def _ended_well(self, place: int) -> bool:
        return self._rows[place >> ROW_BITS].how[place & _ROW] == 1


Place = tuple[int, int]
"""Slot and row."""


def sent(recorded: Recorded, slot_of: Mapping[int, int]) -> Iterator[tuple[Place, Place]]:
    """Yield each send with its recv: the n-th from one rank to another with the n-th of the other from it."""
    places: dict[tuple[str, int, int, str], list[Place]] = {}
    for slot, rows in sorted(recorded.rows.items()):
        for row, form in _between_two(recorded, rows):
            other = slot_of.get(form.peer, form.peer)
            sender, receiver = (slot, other) if form.op == SEND else (other, slot)
            places.setdefault((form.op, sender, receiver, form.group), []).append((slot, row))
    for (op, sender, receiver, group), sends in places.items():
        if op == SEND:
            yield from zip(sends, places.get((RECV, sender, receiver, group), ()), strict=False)


def _between_two(recorded: Recorded, rows: Rows) -> Iterator[tuple[int, Form]]:
    two = {n for n, form in enumerate(recorded.forms) if form.op in (SEND, RECV) and form.peer >= 0}
    if two:
        yield from ((row, recorded.forms[form]) for row, form in enumerate(rows.form) if form in two)
