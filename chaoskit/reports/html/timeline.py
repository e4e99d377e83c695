"""An arm's timeline as the data that timeline.js draws: exact where it matters, summed up elsewhere. Pure.

Times are whole units (µs, or more where an arm takes long) from the arm's begin. Each rank has cells over the
whole arm, and its operations one by one around the injection, the place where the culprit parted from the
others, and the end; all of them, where there is room.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chaoskit.arm_record import ArmRecord
from chaoskit.recorded import Form, Rows
from chaoskit.reports.frame.data import Json, in_script
from chaoskit.reports.html import bins, packing
from chaoskit.reports.html.lanes import Lane
from chaoskit.reports.html.marks import Mark, first_error
from chaoskit.reports.html.scene import Process, Scene, at_fault
from chaoskit.reports.wording import LONGEST_NAME, safe, seconds

BAR_BYTES: Final = 13
"""What an operation takes in the page, about."""
CELL_BYTES: Final = 4
CELLS: Final = (1200, 600, 300, 150, 75, 40)
"""How many cells a row may have, by how much room there is."""
CELLS_MAX, BARS_MAX = 40_000, 50_000
"""In all rows; what is more slows the browser down, and nobody looks at it."""
OPS_MAX: Final = 60
"""Operations with a name of their own; a cell can name 63."""
MARKS_MAX: Final = 2000
FORMS_MAX: Final = 4000
LONG_S: Final = 100.0
MARK_TEXT: Final = 300


@dataclass(frozen=True, slots=True)
class Timeline:
    """``data`` is JSON for a script element; ``left_out`` says what the page does not hold one by one."""

    data: str
    left_out: str = ""


def build(
    record: ArmRecord, scene: Scene, marks: Sequence[Mark], lanes: Mapping[int, Lane], room: int
) -> Timeline | None:
    """Return the timeline in about ``room`` bytes; None where there is nothing to draw, or no room at all."""
    rows = len(scene.processes)
    length_s = scene.end_s - scene.begin_s
    if rows == 0 or length_s <= 0:
        return None
    shown = _Shown(record, scene, lanes)
    room -= rows * 150 + min(len(marks), MARKS_MAX) * 110 + len(shown.forms) * 60
    cells = next((n for n in CELLS if n * rows <= min(CELLS_MAX, room * 0.4 / CELL_BYTES)), 0)
    if cells == 0:
        return None
    room -= cells * CELL_BYTES * rows
    return shown.packed(marks, cells, max(0, int(min(BARS_MAX, room / BAR_BYTES) / rows)))


class _Shown:
    """The operations of an arm, their forms numbered anew by how often they are met."""

    def __init__(self, record: ArmRecord, scene: Scene, lanes: Mapping[int, Lane]) -> None:
        self.record = record
        self.scene = scene
        self.unit_s = 1e-6 if scene.end_s - scene.begin_s < LONG_S else 1e-5
        self.forms = record.recorded.forms
        self.lanes = lanes
        counts: Counter[int] = Counter()
        for rows in record.recorded.rows.values():
            counts.update(rows.form)
        names: Counter[str] = Counter()
        for form, count in counts.items():
            names[self.forms[form].op] += count
        self.names = [name for name, _ in names.most_common(OPS_MAX)]
        numbers = {name: n for n, name in enumerate(self.names)}
        self.ops = [numbers.get(form.op, len(self.names)) for form in self.forms]

    def packed(self, marks: Sequence[Mark], cells: int, bars: int) -> Timeline:
        scene = self.scene
        exact = {slot: list(self._exact(lane, marks, bars)) for slot, lane in self.lanes.items()}
        used: dict[int, int] = {}  # forms of bars that are shown, in order of their numbers in the page
        rows = [self._row(p, exact.get(p.slot, []), cells, used) for p in scene.processes]
        value: dict[str, Json] = {
            "unit": self.unit_s,
            "length": self._at(scene.end_s),
            "origin": self._at(scene.origin_s),
            "injected": scene.injected,
            "cells": cells,
            "ops": [_short(name) for name in self.names] + ["other"],
            "forms": [self._form(self.forms[n], self.ops[n]) for n in used],
            "rows": rows,
            "hosts": list(self._hosts()),
            "lines": list(self._lines(marks)),
            "marks": list(self._marks(marks)),
        }
        total = sum(len(lane.ends_s) for lane in self.lanes.values())
        shown = sum(b - a for spans in exact.values() for a, b in spans)
        said = f"{shown} of {total} operations one by one, the others summed up" if shown < total else ""
        if len(marks) > MARKS_MAX:
            said += f"{'; ' if said else ''}the last {MARKS_MAX} of {len(marks)} marks"
        return Timeline(in_script(value), said)

    def _hosts(self) -> Iterator[Json]:
        """The name of each host, and what on it did it; nothing where there is one."""
        if len(self.scene.hosts) > 1:
            for host in self.scene.hosts:
                yield [_short(host), _short(at_fault(host, self.record.verdict))]

    def _at(self, t_s: float) -> int:
        return max(0, round((min(t_s, self.scene.end_s) - self.scene.begin_s) / self.unit_s))

    # ------------------------------------------------------------ which operations are shown one by one

    def _exact(self, lane: Lane, marks: Sequence[Mark], bars: int) -> Iterator[tuple[int, int]]:
        """Yield the spans (from, to) of those operations, by their place in the lane."""
        total = len(lane.ends_s)
        if total <= bars:
            yield 0, total
            return
        centres = [self._index(lane, t_s) for t_s in self._places(lane, marks)]
        tail = bars // 2 if centres else bars
        each = (bars - tail) // max(1, len(centres))
        spans = [(max(0, c - each // 2), min(total, c + each - each // 2)) for c in centres]
        spans.append((total - tail, total))
        begun, over = -1, -1
        for first, last in sorted(spans):
            if first > over:
                if over > begun:
                    yield begun, over
                begun = first
            over = max(over, last)
        if over > begun:
            yield begun, over

    def _places(self, lane: Lane, marks: Sequence[Mark]) -> list[float]:
        """The moments around which every operation matters."""
        places = [m.t_s for m in marks if m.kind in ("injected", "diverged")][:2]
        if (error := first_error(marks)) is not None:
            places.append(error.t_s)
        at = self.record.verdict.at
        if at is not None:
            numbers = {n for n, f in enumerate(self.forms) if f.op == at.op and f.group == at.group}
            hits = (
                i for i, nth in enumerate(lane.rows.nth) if nth == at.nth and lane.rows.form[i] in numbers
            )
            places += [lane.rows.entered_s[i] for i in hits][:1]
        return places

    def _index(self, lane: Lane, t_s: float) -> int:
        return bisect.bisect_left(lane.rows.entered_s, t_s)

    # ------------------------------------------------------------ rows

    def _row(self, process: Process, exact: list[tuple[int, int]], cells: int, used: dict[int, int]) -> Json:
        scene, lane = self.scene, self.lanes.get(process.slot)
        row: dict[str, Json] = {
            "name": process.name,
            "host": scene.hosts.index(process.host),
            "culprit": process.culprit,
            "victim": process.victim,
            "begin": self._at(process.begin_s),
            "end": self._at(process.end_s),
            "exit": process.exit,
            "stops": [[self._at(a), self._at(b)] for a, b in process.stops],
        }
        if lane is None or not lane.ends_s:
            return row
        row["count"] = len(lane.ends_s)
        all_shown = exact == [(0, len(lane.ends_s))]
        if not all_shown or len(lane.ends_s) > cells // 2:
            row["cells"] = packing.cells(bins.cells_of(lane, self.ops, scene.begin_s, scene.end_s, cells))
        row["exact"] = [self._span(lane.rows, a, b) for a, b in exact]
        row["bars"] = [packing.numbers(self._bars(lane, a, b, used)) for a, b in exact]
        return row

    def _span(self, rows: Rows, first: int, last: int) -> Json:
        """The time in which every operation is among the bars."""
        begin = self._at(rows.entered_s[first]) if first > 0 else 0
        end = self._at(rows.entered_s[last]) if last < len(rows.entered_s) else self._at(self.scene.end_s)
        return [begin, end]

    def _bars(self, lane: Lane, first: int, last: int, used: dict[int, int]) -> Iterator[int]:
        """Yield of each operation: entry (since the one before), waiting, operation, form and how it ended;
        and nth and step where they do not follow from those before it."""
        rows, per_s, begin_s = lane.rows, 1 / self.unit_s, self.scene.begin_s
        before, step = 0, 0
        counts: dict[int, int] = {}
        for i in range(first, last):
            start = max(before, round((rows.entered_s[i] - begin_s) * per_s))
            waited = max(start, round((lane.waited_s[i] - begin_s) * per_s))
            end = max(waited, round((lane.ends_s[i] - begin_s) * per_s))
            form, nth = rows.form[i], rows.nth[i]
            follows = nth == counts.get(form, 0) + 1 and rows.step[i] == step
            number = used.setdefault(form, len(used))
            yield start - before
            yield waited - start
            yield end - waited
            yield number << 3 | rows.how[i] << 1 | (not follows)
            if not follows:
                yield packing.signed(nth - counts.get(form, 0) - 1)
                yield packing.signed(rows.step[i] - step)
            before, step, counts[form] = start, rows.step[i], nth

    def _form(self, form: Form, op: int) -> Json:
        tensor = f"{form.dtype} {form.shape}".strip()
        return [
            op,
            _short(form.op),
            _short(form.group),
            _short(tensor),
            _short(form.site),
            form.peer,
            form.thread,
        ]

    # ------------------------------------------------------------ marks and lines

    def _marks(self, marks: Sequence[Mark]) -> Iterator[Json]:
        rows = {p.slot: n for n, p in enumerate(self.scene.processes)}
        for mark in marks[-MARKS_MAX:]:
            text = safe(mark.text, longest=MARK_TEXT)
            yield [self._at(mark.t_s), rows.get(mark.slot, -1), mark.kind, text]

    def _lines(self, marks: Sequence[Mark]) -> Iterator[Json]:
        scene, verdict = self.scene, self.record.verdict
        if scene.injected:
            yield [self._at(scene.origin_s), "injection", "injection"]
        if verdict.bound_s is not None and scene.injected:
            at_s = scene.origin_s + verdict.bound_s
            late = at_s > scene.end_s
            at = round((at_s - scene.begin_s) / self.unit_s) if late else self._at(at_s)
            yield [at, "bound", f"bound {seconds(verdict.bound_s)}"]
        if (error := first_error(marks)) is not None:
            who = f"rank {scene.ranks[error.slot]}" if error.slot in scene.ranks else "job"
            yield [self._at(error.t_s), "error", f"first error: {who}"]
        if scene.deadline_s is not None:
            yield [self._at(scene.deadline_s), "deadline", "deadline"]


def _short(text: str) -> str:
    return safe(text, longest=LONGEST_NAME)
