"""What was recorded of one arm, its operations as columns: a million of them in some tens of megabytes.

The events of :mod:`chaoskit.history`, for those who need all of them at once (a report) or have too many to
hold each as an object. Standard library only; may not judge anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO

from chaoskit.errors import Problem
from chaoskit.events import Completed, Entered, Event, OpFailed, Replicated, Stepped
from chaoskit.history_file import BATCH, Batch, Reader, Writer
from chaoskit.operations import COMPLETED, FAILED, NEVER, OPEN, Form, Forms, Rows, fit

__all__ = [
    "COMPLETED",
    "FAILED",
    "NEVER",
    "OPEN",
    "Form",
    "Gathering",
    "Recorded",
    "Rows",
    "append_events",
    "batched",
    "gathered",
    "ordered",
    "read",
    "read_events",
    "write",
]


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that was recorded of an arm.

    ``events`` is everything that is no operation's entry or end, in order of time. How an operation failed is
    among them, too, and so is an end of which the entry was not recorded.
    """

    forms: tuple[Form, ...] = ()
    rows: Mapping[int, Rows] = field(default_factory=dict)  # slot -> its operations
    events: tuple[Event, ...] = ()
    problems: tuple[str, ...] = ()  # lines that are damaged or cut off, in words

    @property
    def operations(self) -> int:
        """How many there are."""
        return sum(map(len, self.rows.values()))

    @property
    def size(self) -> int:
        """How many operations and other events there are."""
        return self.operations + len(self.events)

    def with_(self, events: Iterable[Event]) -> Recorded:
        """Return the same with more events, none of them an operation's entry or end."""
        return replace(self, events=tuple(sorted((*self.events, *events), key=_time)))

    def all_events(self) -> list[Event]:
        """Return everything as events, in order of time."""
        frequent = [e for slot in sorted(self.rows) for e in self.rows[slot].events(slot, self.forms)]
        return ordered(frequent, self.events)


FREQUENT = (Entered, Stepped, Replicated)
"""Stands in columns in the file, and so does the end of what was entered."""


class Gathering:
    """Puts together what is recorded of an arm, bit by bit. ``forms`` numbers those of all that is added.

    ``told``: what is kept in the place of an event that is no operation's entry or end."""

    def __init__(self, forms: Forms | None = None, told: Callable[[Event], Event] | None = None) -> None:
        self.forms = forms or Forms()
        self._told = told
        self._rows: dict[int, Rows] = {}
        self._open: dict[tuple[int, int], int] = {}  # slot, seq -> row
        self._events: list[Event] = []
        self._unmatched: list[Completed | OpFailed] = []

    def add(self, said: Event | Batch) -> None:
        """Add an event, or operations of one slot."""
        if isinstance(said, Batch):
            if len(said.rows):
                self.add_rows(said.slot, said.rows)
            self._events += said.events
        elif isinstance(said, Entered) and fit(said):
            self._enter(said)
        elif isinstance(said, (Completed, OpFailed)):
            if isinstance(said, OpFailed):
                self._keep(said)
            if not self._end(said):
                self._unmatched.append(said)
        else:
            self._keep(said)

    def takes(self, event: Event) -> bool:
        """Add the event if it goes into columns, and return whether it does."""
        if isinstance(event, Completed):
            return self._end(event)
        if not isinstance(event, FREQUENT) or not fit(event):
            return False
        self.add(event)
        return True

    def add_rows(self, slot: int, rows: Rows) -> None:
        """Add operations of one slot, whose forms are numbered by ``forms``."""
        known = self._rows.setdefault(slot, Rows())
        if OPEN in rows.how:
            for at, how in enumerate(rows.how, len(known)):
                if how == OPEN:
                    self._open[slot, rows.seq[at - len(known)]] = at
        known.extend(rows)

    def done(self, problems: Iterable[Problem] = ()) -> Recorded:
        """Return all of it, in order."""
        late = [e for e in self._unmatched if not self._end(e)]  # it came before what it ends
        self._events += [e for e in late if isinstance(e, Completed)]
        self._unmatched = []
        self._events.sort(key=_time)
        rows = {slot: self._rows[slot].in_order() for slot in sorted(self._rows)}
        return Recorded(tuple(self.forms.known), rows, tuple(self._events), tuple(map(str, problems)))

    def _keep(self, event: Event) -> None:
        self._events.append(event if self._told is None else self._told(event))

    def _enter(self, event: Entered) -> None:
        rows = self._rows.setdefault(event.slot, Rows())
        self._open[event.slot, event.seq] = rows.enter(event, self.forms.number(Form.of(event)))

    def _end(self, event: Completed | OpFailed) -> bool:
        """Write an end into the row of what it ends, if there is one that has not ended."""
        at = self._open.get((event.slot, event.seq))
        if at is None:
            return False
        rows = self._rows[event.slot]
        form = self.forms.known[rows.form[at]]
        told = (event.op, event.group, event.nth, event.step)
        if told != (form.op, form.group, rows.nth[at], rows.step[at]) or not fit(event) or not event.t_s:
            return False
        rows.end(at, event.t_s, COMPLETED if isinstance(event, Completed) else FAILED)
        del self._open[event.slot, event.seq]
        return True


_time: Callable[[Event], float] = attrgetter("t_s")
_time_and_slot = attrgetter("t_s", "slot")


def ordered(frequent: list[Event], rare: Iterable[Event]) -> list[Event]:
    """Put events in order of time; at the same time by slot, and what is rare behind what is frequent."""
    frequent.sort(key=_time_and_slot)
    frequent += rare
    frequent.sort(key=_time)
    return frequent


def batched(forms: Forms, told: Iterable[Event | Batch]) -> Iterator[Event | Batch]:
    """Yield the same with operations that are told event by event put together, some of each slot at a time.

    An end that comes too late for that stays an event.
    """
    waiting: dict[int, Rows] = {}
    places: dict[tuple[int, int], int] = {}  # slot, seq -> row
    for said in told:
        if isinstance(said, Entered) and fit(said):
            rows = waiting.setdefault(said.slot, Rows())
            if len(rows) >= BATCH:
                for seq in rows.seq:
                    places.pop((said.slot, seq), None)
                yield Batch(said.slot, rows)
                rows = waiting[said.slot] = Rows()
            places[said.slot, said.seq] = rows.enter(said, forms.number(Form.of(said)))
        elif isinstance(said, Completed) and (at := places.pop((said.slot, said.seq), None)) is not None:
            waiting[said.slot].end(at, said.t_s, COMPLETED)
        else:
            yield said
    yield from (Batch(slot, rows) for slot, rows in waiting.items())


# ---------------------------------------------------------------- reading


def read(path: Path) -> Recorded:
    """Return what is in the file. Raises OSError where there is none; never for what is in it."""
    reader = Reader(path)
    gathering = Gathering(reader.forms)
    for said in reader:
        gathering.add(said)
    return gathering.done(reader.problems)


def gathered(events: Iterable[Event]) -> Recorded:
    """Return ``events`` with the operations as columns."""
    gathering = Gathering()
    for event in events:
        gathering.add(event)
    return gathering.done()


def read_events(path: Path) -> tuple[list[Event], list[Problem]]:
    """Return the events in the file in order of time, and a problem for each line that is none."""
    frequent: list[Event] = []
    rare: list[Event] = []
    reader = Reader(path)
    for said in reader:
        if isinstance(said, Batch):
            frequent += said.rows.events(said.slot, reader.forms.known)
            frequent += said.events
        else:
            rare.append(said)
    return ordered(frequent, rare), reader.problems


# ---------------------------------------------------------------- writing


def write(path: Path, recorded: Recorded) -> None:
    """Write the file anew, in order of time."""
    rare = [e for e in recorded.events if not isinstance(e, FREQUENT) or not fit(e)]
    with path.open("w", encoding="utf-8") as file:
        _write(file, recorded, rare)


def append_events(path: Path, events: Iterable[Event]) -> None:
    """Append events to the file, so that they are read again in order of time, and in the order given where
    their times are equal."""
    gathering = Gathering()
    rare: list[Event] = []
    for _, together in groupby(sorted(events, key=_time), key=_time):
        slot, in_columns = -1, True
        for event in together:
            in_columns = in_columns and event.slot > slot and gathering.takes(event)
            slot = event.slot
            if not in_columns:
                rare.append(event)
    with path.open("a", encoding="utf-8") as file:
        # No form takes fewer than 64 bytes, so these ids are new.
        _write(file, gathering.done(), rare, first_form=file.tell() // 64)


def _write(file: IO[str], recorded: Recorded, rare: Iterable[Event], first_form: int = 0) -> None:
    """Write what is frequent in columns, and each of ``rare`` as it is."""
    writer = Writer(file, recorded.forms, first_form)
    batches = sorted(_batches(writer, recorded), key=lambda batch: batch[0], reverse=True)
    for event in rare:
        while batches and batches[-1][0] <= event.t_s:
            batches.pop()[1]()
        writer.event(event)
    while batches:
        batches.pop()[1]()


def _batches(writer: Writer, recorded: Recorded) -> Iterator[tuple[float, Callable[[], None]]]:
    """The time at which each batch begins, and what writes it."""
    for slot, rows in recorded.rows.items():
        for begin in range(0, len(rows), BATCH):
            yield rows.entered_s[begin], partial(writer.operations, slot, rows, begin, begin + BATCH)
    steps: dict[int, list[Stepped]] = {}
    checksums: dict[int, list[Replicated]] = {}
    for event in recorded.events:
        if isinstance(event, Stepped) and fit(event):
            steps.setdefault(event.slot, []).append(event)
        elif isinstance(event, Replicated) and fit(event):
            checksums.setdefault(event.slot, []).append(event)
    for slot, stepped in steps.items():
        for begin in range(0, len(stepped), BATCH):
            part = stepped[begin : begin + BATCH]
            yield part[0].t_s, partial(writer.steps, slot, part)
    for slot, replicated in checksums.items():
        for begin in range(0, len(replicated), BATCH):
            sums = replicated[begin : begin + BATCH]
            yield sums[0].t_s, partial(writer.checksums, slot, sums)
