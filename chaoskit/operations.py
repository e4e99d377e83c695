"""The operations of one process as columns: a million of them is a few arrays, not a million objects.

Import them from :mod:`chaoskit.recorded`. Values only; may not read or write anything.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import le
from typing import Any

from chaoskit.events import Completed, Entered, Event, Replicated, Stepped

OPEN, COMPLETED, FAILED = 0, 1, 2
"""How an operation ended, in :attr:`Rows.how`."""
NEVER = math.nan
U32, U64 = 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
_EXACT = 2.0**53  # beyond it, a time that is a whole number may not be a float


@dataclass(frozen=True, slots=True)
class Form:
    """What operations have in common that one place in the script issues again and again."""

    op: str
    group: str
    site: str = ""
    shape: str = ""
    dtype: str = ""
    members: tuple[int, ...] = ()
    peer: int = -1
    thread: int = 0

    @classmethod
    def of(cls, e: Entered) -> Form:
        return cls(e.op, e.group, e.site, e.shape, e.dtype, e.members, e.peer, e.thread)


class Forms:
    """Gives each form a number, the index in ``known``."""

    def __init__(self) -> None:
        self.known: list[Form] = []
        self._numbers: dict[Form, int] = {}

    def number(self, form: Form) -> int:
        """Return the number of ``form``, which gets the next one if it is new."""
        number = self._numbers.setdefault(form, len(self.known))
        if number == len(self.known):
            self.known.append(form)
        return number


Columns = tuple[
    "array[float]", "array[float]",
    "array[int]", "array[int]", "array[int]", "array[int]", "array[int]", "array[int]",
]  # fmt: skip


@dataclass(slots=True)
class Rows:
    """The operations of one slot in order of entry; every column has the same length.

    ``form`` is an index into the forms of whoever holds these rows.
    """

    entered_s: array[float] = field(default_factory=lambda: array("d"))
    ended_s: array[float] = field(default_factory=lambda: array("d"))  # nan: never ended
    how: array[int] = field(default_factory=lambda: array("b"))  # OPEN, COMPLETED, FAILED
    form: array[int] = field(default_factory=lambda: array("I"))
    nth: array[int] = field(default_factory=lambda: array("I"))
    step: array[int] = field(default_factory=lambda: array("I"))
    seq: array[int] = field(default_factory=lambda: array("I"))
    fingerprint: array[int] = field(default_factory=lambda: array("Q"))

    def __len__(self) -> int:
        return len(self.entered_s)

    @property
    def columns(self) -> Columns:
        """All of them, in the order of the fields."""
        return (
            self.entered_s, self.ended_s,
            self.how, self.form, self.nth, self.step, self.seq, self.fingerprint,
        )  # fmt: skip

    def enter(self, e: Entered, form: int) -> int:
        """Add the operation that was entered, and return its row."""
        self.fingerprint.append(e.fingerprint)
        self.seq.append(e.seq)
        self.step.append(e.step)
        self.nth.append(e.nth)
        self.form.append(form)
        self.how.append(OPEN)
        self.ended_s.append(NEVER)
        self.entered_s.append(e.t_s)
        return len(self.entered_s) - 1

    def end(self, at: int, ended_s: float, how: int) -> None:
        """Say how the operation in row ``at`` ended."""
        self.ended_s[at] = ended_s
        self.how[at] = how

    def extend(self, more: Rows) -> None:
        """Add the rows of ``more`` at the end."""
        columns: zip[tuple[array[Any], array[Any]]] = zip(self.columns, more.columns, strict=True)
        for column, added in columns:
            column.extend(added)

    def picked(self, rows: Iterable[int]) -> Rows:
        """Return these rows alone, in the order given."""
        chosen = list(rows)
        columns: Iterable[array[Any]] = self.columns
        return Rows(*(array(c.typecode, map(c.__getitem__, chosen)) for c in columns))

    def part(self, begin: int, end: int) -> Rows:
        """Return the rows from ``begin`` to before ``end``."""
        columns: Iterable[array[Any]] = self.columns
        return Rows(*(column[begin:end] for column in columns))

    def in_order(self) -> Rows:
        """Return these rows in order of entry; the same object where they are."""
        times = self.entered_s
        if all(map(le, times, times[1:])):
            return self
        return self.picked(sorted(range(len(times)), key=times.__getitem__))

    def events(self, slot: int, forms: Sequence[Form]) -> Iterator[Event]:
        """Yield the entry of each operation, and its end where it completed."""
        for entered_s, ended_s, how, number, nth, step, seq, fingerprint in zip(*self.columns, strict=True):
            form = forms[number]
            yield Entered(
                entered_s, slot, form.op, form.group, nth, step, seq, fingerprint,
                form.site, form.shape, form.dtype, form.members, form.peer, form.thread,
            )  # fmt: skip
            if how == COMPLETED:
                yield Completed(ended_s, slot, form.op, form.group, nth, step, seq)


def fit(event: Event) -> bool:
    """Return whether the columns can hold this event's numbers."""
    if not 0 <= event.slot <= U32 or not 0.0 <= event.t_s <= _EXACT:
        return False
    match event:
        case Entered():
            numbers = max(event.nth, event.step, event.seq), min(event.nth, event.step, event.seq)
            words = event.fingerprint
        case Stepped():
            numbers, words = (event.step, event.step), 0
        case Replicated():
            numbers, words = (max(event.step, event.ordinal), min(event.step, event.ordinal)), event.checksum
        case _:
            return True
    return numbers[0] <= U32 and numbers[1] >= 0 and 0 <= words <= U64
