"""A matrix on a terminal, in at most 25 lines: what holds, what is needed, what is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from chaoskit.matrix.values import NONE, PROFILE, Mark, Matrix, Worth
from chaoskit.reports.console import Pen
from chaoskit.reports.matrix.words import (
    broken_lines,
    counts,
    effort_line,
    fitted,
    gap_lines,
    held_lines,
    listed,
    never,
    open_parts,
    replaceable,
    resume_line,
    smallest_lines,
)
from chaoskit.reports.wording import plural

LINES_MAX = 25
_GAPS_MAX = 6
_WIDTH = 118


def print_matrix(matrix: Matrix, console: Console, files: Sequence[str] = ()) -> None:
    """Print the summary. ``files``: the reports that were written."""
    pen = Pen(console)
    lines = [*_lines(matrix), *(f"written: {file}" for file in files)]
    if matrix.interrupted:
        lines.append(f"interrupted; {resume_line(matrix)}")
    whole = {f"  {line}" for line in broken_lines(matrix)} | {
        f"profile: {line}" for line in held_lines(matrix)
    }
    for number, line in enumerate(lines[-LINES_MAX:] if len(lines) > LINES_MAX else lines):
        copied = line.startswith(("written: ", "interrupted; ")) or line in whole
        shown = pen.text(line)
        cut = shown if copied or len(shown) <= _WIDTH else shown[: _WIDTH - 1].rstrip() + pen.more
        console.print(Text(cut, style="bold" if number == 0 else ""), soft_wrap=True)


def _lines(matrix: Matrix) -> Iterator[str]:
    found, origin = counts(matrix), matrix.origin
    repeats = f", {origin.repeat} repeats" if origin.repeat > 1 else ", each cell once"
    yield (
        f"{plural(len(matrix.rows), 'scenario')} × {plural(len(matrix.columns), 'column')}: profile "
        f"{origin.profile} on {origin.backend}, torch {origin.torch}, seed {origin.seed}{repeats}"
    )
    if origin.program:
        yield f"program: {origin.program}"
    yield f"profile: {', '.join(held_lines(matrix))}"
    yield from (f"  {line}" for line in broken_lines(matrix))
    if found.not_needed:
        yield f"  {plural(found.not_needed, 'fault')} not needed: the contract is kept without any guard"
    for label, names in (
        ("not held", found.not_held),
        ("false alarm", found.alarms),
        ("unclear", found.unclear),
        ("skipped", found.skipped),
        ("not run yet", found.unknown),
    ):
        if names:
            why = f" ({_why(matrix, names[0])})" if label in ("skipped", "unclear") else ""
            head = f"  {label}: {len(names)}: "
            yield f"{head}{listed(names, 3)}{why}" if why else fitted(head, names, _WIDTH)
    yield from _worths(matrix)
    first, *more = smallest_lines(matrix)
    yield first
    yield from (f"  {line}" for line in more)
    gaps = gap_lines(matrix)
    if gaps:
        yield "the profile lacks (each added and run):"
        yield from (f"  {line}" for line in gaps[:_GAPS_MAX])
        if len(gaps) > _GAPS_MAX:
            yield f"  and {len(gaps) - _GAPS_MAX} more: see the report"
    if matrix.effort.damaged:
        yield f"{plural(matrix.effort.damaged, 'damaged line')} of kept cells: those cells were run again"
    yield effort_line(matrix)


def _why(matrix: Matrix, name: str) -> str:
    """The reason of the first of them; it is mostly that of all."""
    cells = (row.cell(column) for row in matrix.rows if row.scenario == name for column in (NONE, PROFILE))
    odd = (Mark.SKIPPED, Mark.UNSTEADY, Mark.INCONCLUSIVE, Mark.NOT_RUN, Mark.FALSE_ALARM)
    return next((cell.reason for cell in cells if cell is not None and cell.mark in odd), "")


def _worths(matrix: Matrix) -> Iterator[str]:
    ways: tuple[tuple[str, Callable[[Worth], Sequence[str]]], ...] = (
        ("hold alone", lambda w: w.alone),
        ("needed in the profile", lambda w: w.needed),
        ("in the way", lambda w: w.hinders),
        ("false alarms alone", lambda w: w.alarms),
    )
    for label, of in ways:
        ranked = sorted(((len(of(w)), w.part) for w in matrix.worth if of(w)), key=lambda one: -one[0])
        if ranked:
            yield fitted(f"{label}: ", [f"{part} {count}" for count, part in ranked], _WIDTH)
    for label, parts in (
        ("never matter here", never(matrix)),
        ("each can be replaced by another of the profile", replaceable(matrix)),
        ("not known whether they matter", open_parts(matrix)),
        ("no effect here, nothing is said of", [w.part for w in matrix.worth if w.not_applicable]),
    ):
        if parts:
            yield fitted(f"{label}: ", parts, _WIDTH)
    if matrix.not_kept:
        more = len(matrix.not_kept) - 1
        yield matrix.not_kept[0] + (f" (and {plural(more, 'scenario')} more)" if more else "")
