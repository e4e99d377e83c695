"""The file of a history, ``history.jsonl``: one JSON value a line.

Read and write it with :mod:`chaoskit.history` (events) or :mod:`chaoskit.recorded` (columns). A line is
one of

- ``{"kind":"Started",…}``: an event, as :mod:`chaoskit.event_lines` has it;
- ``{"kind":"Layout","version":1}``: the version of the three kinds of lines that follow;
- ``{"kind":"Form","id":3,…}``: what operations have in common that one place in the script issues;
- ``{"kind":"Operations","slot":0,"entered_s":[…],…}``: up to 256 operations of one rank, one after the other,
  as columns: when each was entered, when it completed (0: it did not), the id of its form (further up), its
  ``nth``, step and ``seq``. A column whose values are all the same is that value alone; of ``nth`` and
  ``seq`` one value alone is the first, from which they count up;
- ``{"kind":"Steps",…}`` and ``{"kind":"Checksums",…}``: the same for optimizer steps and for checksums of
  replicated state.

Columns are for what is frequent. Any of it may stand as an event, too: so it does in files of earlier
versions, and where an order of equal times would be lost. The reader believes nothing: a line that is damaged
or cut off is a problem with its number, and the lines around it are read.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from chaoskit.errors import Problem
from chaoskit.event_lines import encode, from_fields, to_line
from chaoskit.events import Event, Replicated, Stepped
from chaoskit.operations import COMPLETED, NEVER, OPEN, U32, U64, Form, Forms, Rows

VERSION = 1
BATCH = 256
PROBLEMS_MAX = 1000
LINE_BYTES_MAX = 16 << 20
"""A longer line is none of chaoskit's."""
_NOT_ENDED = 0.0


# ---------------------------------------------------------------- writing


class Writer:
    """Writes lines. ``first_form`` is the id from which its forms are counted: no other of the file's may be
    as high."""

    def __init__(self, file: IO[str], forms: Sequence[Form], first_form: int = 0) -> None:
        self._file = file
        self._forms = forms
        self._ids: dict[tuple[int, int], int] = {}
        self._next = first_form
        self._told = False

    def event(self, event: Event) -> None:
        self._file.write(to_line(event) + "\n")

    def operations(self, slot: int, rows: Rows, begin: int, end: int) -> None:
        """Write these rows of a slot, no more than BATCH. How one failed is an event of its own."""
        completed = [
            ended_s if how == COMPLETED else _NOT_ENDED
            for ended_s, how in zip(rows.ended_s[begin:end], rows.how[begin:end], strict=True)
        ]
        pairs = list(zip(rows.form[begin:end], rows.fingerprint[begin:end], strict=True))
        for pair in dict.fromkeys(pairs):
            if pair not in self._ids:
                self._form(*pair)
        self._columns(
            "Operations",
            slot,
            entered_s=rows.entered_s[begin:end].tolist(),
            ended_s=completed,
            form=_plain([self._ids[pair] for pair in pairs]),
            nth=_counted(rows.nth[begin:end].tolist()),
            step=_plain(rows.step[begin:end].tolist()),
            seq=_counted(rows.seq[begin:end].tolist()),
        )

    def steps(self, slot: int, events: Sequence[Stepped]) -> None:
        """Write no more than BATCH optimizer steps of a slot."""
        self._columns("Steps", slot, t_s=[e.t_s for e in events], step=[e.step for e in events])

    def checksums(self, slot: int, events: Sequence[Replicated]) -> None:
        """Write no more than BATCH checksums of a slot."""
        self._columns(
            "Checksums",
            slot,
            t_s=[e.t_s for e in events],
            step=[e.step for e in events],
            checksum=[e.checksum for e in events],
            final=_plain([int(e.final) for e in events]),
            ordinal=_plain([e.ordinal for e in events]),
        )

    def _form(self, number: int, fingerprint: int) -> None:
        form, known = self._forms[number], self._next
        self._ids[number, fingerprint] = known
        self._next += 1
        fields = {name: getattr(form, name) for name in Form.__slots__}
        self._line({"kind": "Form", "id": known, **fields, "fingerprint": fingerprint})

    def _columns(self, kind: str, slot: int, **columns: object) -> None:
        self._line({"kind": kind, "slot": slot, **columns})

    def _line(self, value: Mapping[str, object]) -> None:
        if not self._told:
            self._told = True
            self._file.write(encode({"kind": "Layout", "version": VERSION}) + "\n")
        self._file.write(encode(value) + "\n")


def _counted(values: list[int]) -> list[int] | int:
    """The values, or the first where each is one more than the one before."""
    first = values[0]
    return first if values == list(range(first, first + len(values))) else values


def _plain(values: list[int]) -> list[int] | int:
    """The values, or the one that all of them are."""
    return values[0] if values.count(values[0]) == len(values) else values


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class Batch:
    """What one line tells of one slot in columns; the forms are numbered by :attr:`Reader.forms`."""

    slot: int
    rows: Rows = field(default_factory=Rows)
    events: Sequence[Event] = ()  # steps or checksums


@dataclass(slots=True)
class Reader:
    """Reads the lines of a file, and keeps the forms and the problems that it met. Raises OSError only."""

    path: Path
    forms: Forms = field(default_factory=Forms)
    problems: list[Problem] = field(default_factory=list)
    _ids: dict[int, tuple[int, int]] = field(default_factory=dict)  # -> number of the form, fingerprint
    _foreign: bool = False  # of a version whose columns are not known here

    def __iter__(self) -> Iterator[Event | Batch]:
        """Yield what the lines say, in their order. Forms that are told twice are the same ones."""
        for number, line in enumerate(self._lines(), 1):
            if line.isspace():
                continue
            try:
                yield from self._said(json.loads(line))
            except KeyError as error:
                self._wrong(f"{error} is missing", number)
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                self._wrong(str(error), number)

    def _wrong(self, why: str, number: int) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(f"unreadable event: {why}", str(self.path), number))
        elif len(self.problems) == PROBLEMS_MAX:
            self.problems.append(
                Problem("unreadable events from here on, not all of them told", str(self.path), number)
            )

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            while line := file.readline(LINE_BYTES_MAX):
                yield line

    def _said(self, raw: object) -> Iterator[Event | Batch]:
        kind = raw.get("kind") if isinstance(raw, dict) else None
        take = _TAKES.get(kind) if isinstance(kind, str) else None
        if take is None:
            yield from_fields(raw)
        elif not self._foreign:
            assert isinstance(raw, dict)
            yield from take(self, raw)

    def _layout(self, raw: Mapping[str, object]) -> Sequence[Event | Batch]:
        version = raw["version"]
        if type(version) is not int or version != VERSION:
            self._foreign = True
            raise ValueError(f"its layout is {version!r:.20}, and this chaoskit reads {VERSION} alone")
        return ()

    def _form(self, raw: Mapping[str, object]) -> Sequence[Event | Batch]:
        number, fingerprint = _whole(raw["id"]), _whole(raw["fingerprint"], U64)
        op, group, site, shape, dtype = (raw[name] for name in ("op", "group", "site", "shape", "dtype"))
        members, peer, thread = raw["members"], raw["peer"], raw["thread"]
        if {type(text) for text in (op, group, site, shape, dtype)} != {str} or type(members) is not list:
            raise ValueError(f"form {number} has values of other types")
        if not {int}.issuperset(map(type, (peer, thread, *members))):
            raise ValueError(f"form {number} has values of other types")
        form = Form(op, group, site, shape, dtype, tuple(members), peer, thread)  # type: ignore[arg-type]
        told = (self.forms.number(form), fingerprint)
        if self._ids.setdefault(number, told) != told:
            raise ValueError(f"form {number} is told twice, differently")
        return ()

    def _operations(self, raw: Mapping[str, object]) -> Sequence[Event | Batch]:
        entered_s, ended_s = _times(raw["entered_s"]), _times(raw["ended_s"])
        count = len(entered_s)
        how = array("b", [COMPLETED]) * len(ended_s)
        for at in [at for at, t in enumerate(ended_s) if not t] if _NOT_ENDED in ended_s else ():
            ended_s[at], how[at] = NEVER, OPEN
        number, fingerprint = self._forms_of(raw["form"], count)
        rows = Rows(
            entered_s,
            ended_s,
            how,
            number,
            _counting(raw["nth"], count),
            _column(raw["step"], count),
            _counting(raw["seq"], count),
            fingerprint,
        )
        if {len(c) for c in rows.columns} != {count}:
            raise ValueError("the columns of operations are not of the same length")
        return [Batch(_whole(raw["slot"]), rows)]

    def _forms_of(self, ids: object, count: int) -> tuple[array[int], array[int]]:
        """The numbers of the forms with these ids, and their fingerprints."""
        if type(ids) is int:
            number, fingerprint = self._told(ids)
            return array("I", [number]) * count, array("Q", [fingerprint]) * count
        told = {i: self._told(i) for i in set(_column(ids, count))}
        assert type(ids) is list
        return array("I", [told[i][0] for i in ids]), array("Q", [told[i][1] for i in ids])

    def _told(self, form: int) -> tuple[int, int]:
        if form not in self._ids:
            raise ValueError(f"form {form} is not told further up")
        return self._ids[form]

    def _steps(self, raw: Mapping[str, object]) -> Sequence[Event | Batch]:
        slot, times = _whole(raw["slot"]), _times(raw["t_s"])
        steps = _column(raw["step"], len(times))
        events = [Stepped(t_s, slot, step) for t_s, step in zip(times, steps, strict=True)]
        return [Batch(slot, events=events)]

    def _checksums(self, raw: Mapping[str, object]) -> Sequence[Event | Batch]:
        slot, times = _whole(raw["slot"]), _times(raw["t_s"])
        names = ("step", "checksum", "final", "ordinal")
        codes = {"checksum": "Q"}
        columns = [_column(raw[name], len(times), codes.get(name, "I")) for name in names]
        events = [
            Replicated(t_s, slot, step, checksum, bool(final), ordinal)
            for t_s, step, checksum, final, ordinal in zip(times, *columns, strict=True)
        ]
        return [Batch(slot, events=events)]


_Take = Callable[[Reader, Mapping[str, object]], Sequence[Event | Batch]]
_TAKES: dict[str, _Take] = {
    "Layout": Reader._layout,
    "Form": Reader._form,
    "Operations": Reader._operations,
    "Steps": Reader._steps,
    "Checksums": Reader._checksums,
}


def _times(value: object) -> array[float]:
    if type(value) is not list:
        raise ValueError("the times of a column are no list")
    times = array("d", value)
    if not math.isfinite(sum(times)):
        raise ValueError("a time is no number")
    return times


def _column(value: object, count: int, code: str = "I") -> array[int]:
    """The whole numbers of a column, which may be told as one for all."""
    if type(value) is int:
        return array(code, [value]) * count
    if type(value) is not list:
        raise ValueError("the values of a column are no list")
    return array(code, value)


def _counting(value: object, count: int) -> array[int]:
    """The same, where one value is the first from which it counts up."""
    return array("I", range(value, value + count)) if type(value) is int else _column(value, count)


def _whole(value: object, most: int = U32) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r:.40} is no whole number")
    return value
