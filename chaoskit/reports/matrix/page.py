"""A matrix as a heat map: a page whose script tells all of the cell that one looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from chaoskit.matrix.values import Cell, Column, Mark, Matrix, Row
from chaoskit.reports.frame.data import Json, in_script
from chaoskit.reports.frame.page import Frame
from chaoskit.reports.matrix.words import (
    ENDED,
    LATE_SIGN,
    MEANING,
    SIGNS,
    Counts,
    broken_lines,
    counts,
    effort_line,
    gap_lines,
    heading,
    held_lines,
    listed,
    never,
    open_parts,
    reasons,
    replaceable,
    said,
    sign,
    smallest_lines,
    worth_line,
)
from chaoskit.reports.wording import plural, safe, seconds

REASON_MAX: Final = 400
_PAGE: Final = Frame("chaoskit.reports.matrix", "page.html", "matrix.css", ("matrix.js",))
_DIGITS: Final = 4
_NAMES_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class Square:
    """One cell as it is drawn. ``time`` and ``who`` are what the other two views write into it."""

    css: str
    sign: str
    time: str
    who: str
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    healthy: bool
    summary: str
    squares: tuple[Square, ...]


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """A column. ``first`` begins a group of columns."""

    name: str
    group: str
    css: str


@dataclass(frozen=True, slots=True)
class Key:
    css: str
    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class View:
    """All that the template shows."""

    title: str
    origin: tuple[str, ...]
    counts: Counts
    held: tuple[str, ...]
    broken: tuple[str, ...]
    not_needed: str
    heads: tuple[Head, ...]
    groups: tuple[tuple[str, int], ...]
    families: tuple[Family, ...]
    keys: tuple[Key, ...]
    worth: tuple[tuple[str, str, str], ...]
    never: tuple[str, ...]
    replaceable: tuple[str, ...]
    open_parts: tuple[str, ...]
    smallest: tuple[str, ...]
    gaps: tuple[str, ...]
    reasons: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]
    effort: str
    interrupted: str
    resume_note: str


def render(matrix: Matrix) -> str:
    """Return the page."""
    view = _view(matrix)
    return _PAGE.render(view.title, view.origin, view=view, data=in_script(_data(matrix)))


# ---------------------------------------------------------------- what is shown


def _view(matrix: Matrix) -> View:
    origin = matrix.origin
    facts = (
        f"program {origin.program}" if origin.program else "",
        f"profile {origin.profile}",
        f"backend {origin.backend}",
        f"torch {origin.torch}",
        f"chaoskit {origin.chaoskit}" if origin.chaoskit else "",
        f"seed {origin.seed}",
        "each cell run once" if origin.repeat == 1 else f"each cell run {origin.repeat} times",
        plural(origin.cores, "core"),
        origin.folder,
    )
    columns = matrix.columns
    return View(
        title=f"Guards × scenarios: {origin.profile}",
        origin=tuple(filter(None, facts)),
        counts=counts(matrix),
        held=tuple(held_lines(matrix)),
        broken=tuple(broken_lines(matrix)),
        not_needed=plural(counts(matrix).not_needed, "fault"),
        heads=tuple(_heads(columns)),
        groups=tuple(_groups(columns)),
        families=tuple(_families(matrix)),
        keys=tuple(_keys(matrix)),
        worth=tuple((w.part, worth_line(w, matrix.interrupted), _worth_css(w.matters)) for w in matrix.worth),
        never=never(matrix),
        replaceable=replaceable(matrix),
        open_parts=open_parts(matrix),
        smallest=tuple(smallest_lines(matrix)),
        gaps=tuple(gap_lines(matrix)),
        reasons=tuple(_reasons(matrix)),
        notes=(*matrix.notes, *matrix.not_kept),
        effort=effort_line(matrix),
        interrupted=origin.resume if matrix.interrupted else "",
        resume_note=origin.resume_note,
    )


def _reasons(matrix: Matrix) -> Iterator[tuple[str, str, str]]:
    for mark, reason, names in reasons(matrix):
        yield listed(names, _NAMES_MAX), mark, safe(reason, longest=REASON_MAX)


def _worth_css(matters: bool | None) -> str:
    return "dim" if matters is None else ("" if matters else "useless")


_GROUPS: Final = {"none": "", "alone": "each guard alone", "profile": "", "without": "the profile without it"}


def _heads(columns: tuple[Column, ...]) -> Iterator[Head]:
    last = ""
    for column in columns:
        first = " first" if column.form != last else ""
        yield Head(heading(column), column.form, f"{column.form}{first}")
        last = column.form


def _groups(columns: tuple[Column, ...]) -> Iterator[tuple[str, int]]:
    for form, group in groupby(columns, key=lambda column: column.form):
        yield _GROUPS.get(form, form), len(list(group))


def _families(matrix: Matrix) -> Iterator[Family]:
    families = dict.fromkeys(row.family for row in matrix.rows)
    for family in sorted(families, key=lambda name: name == "healthy"):  # the twins last
        rows = [row for row in matrix.rows if row.family == family]
        yield Family(family, tuple(_line(row, matrix.columns) for row in rows))


def _line(row: Row, columns: tuple[Column, ...]) -> Line:
    found = {cell.column: cell for cell in row.cells}
    forms = [column.form for column in columns]
    squares = (_square(found.get(c), c, forms.index(c.form) == n) for n, c in enumerate(columns))
    return Line(row.scenario, row.healthy, row.summary, tuple(squares))


def _square(cell: Cell | None, column: Column, is_first: bool) -> Square:
    first = " first" if is_first else ""
    if cell is None:
        return Square(f"absent{first}", "", "", "", "this guard is not in its profile")
    who = "" if cell.named_by_job is None else ("yes" if cell.named_by_job else "no")
    if who == "no" and cell.named:
        who = "verdict"
    return Square(_css(cell), sign(cell), _short(cell.latency_s), who, f"{heading(column)}: {said(cell)}")


def _css(cell: Cell) -> str:
    return "ended" if cell.mark is Mark.NOT_HELD and cell.ended else cell.mark.value.replace("_", "-")


def _short(latency_s: float | None) -> str:
    """A latency in at most four characters."""
    if latency_s is None:
        return ""
    if latency_s < 9.95:
        return f"{latency_s:.1f}"
    return f"{latency_s:.0f}"[:_DIGITS]


def _keys(matrix: Matrix) -> Iterator[Key]:
    used = {cell.mark for row in matrix.rows for cell in row.cells}
    late = [_css(c) == "ended" for row in matrix.rows for c in row.cells if c.mark is Mark.NOT_HELD]
    for mark in Mark:
        if mark in used and not (mark is Mark.NOT_HELD and all(late)):
            yield Key(mark.value.replace("_", "-"), SIGNS[mark], MEANING[mark])
        if mark is Mark.NOT_HELD and any(late):
            yield Key("ended", LATE_SIGN, ENDED)


# ---------------------------------------------------------------- what is told of a cell


def _data(matrix: Matrix) -> Json:
    """For each row its cells in the order of the columns: labels and texts, safe to show."""
    return [
        [_facts(found.get(column)) for column in matrix.columns]
        for row in _in_order(matrix)
        for found in [{cell.column: cell for cell in row.cells}]
    ]


def _in_order(matrix: Matrix) -> list[Row]:
    names = [line.name for family in _families(matrix) for line in family.lines]
    rows = {row.scenario: row for row in matrix.rows}
    return [rows[name] for name in names]


def _facts(cell: Cell | None) -> list[list[str]]:
    if cell is None:
        return []
    bound = f" of {seconds(cell.bound_s)}" if cell.bound_s is not None else ""
    facts = (
        ("result", said(cell)),
        ("outcome", cell.outcome.value.replace("_", " ") if cell.outcome is not None else ""),
        ("latency", seconds(cell.latency_s) + bound if cell.latency_s is not None else ""),
        ("reason", safe(cell.reason, longest=REASON_MAX)),
        ("culprit", ", ".join(cell.culprits)),
        ("named by the job", _yes_no(cell.named_by_job)),
        ("named by the verdict", _yes_no(cell.named)),
        ("ended by", ", ".join(cell.ended_by)),
        ("repeats", str(cell.repeats) if cell.repeats > 1 else ""),
        ("files", cell.folder),
        ("run again", cell.rerun),
    )
    return [[label, safe(text)] for label, text in facts if text]


def _yes_no(value: bool | None) -> str:
    return "" if value is None else ("yes" if value else "no")
