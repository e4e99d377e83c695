"""A matrix as Markdown, for a merge request or a wiki. What a text says stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from chaoskit.matrix.values import NONE, PROFILE, Column, Mark, Matrix, Row
from chaoskit.reports.markdown_text import table_row
from chaoskit.reports.matrix.words import (
    ENDED,
    LATE_SIGN,
    MEANING,
    SIGNS,
    broken_lines,
    counts,
    effort_line,
    gap_lines,
    held_lines,
    never,
    open_parts,
    reasons,
    replaceable,
    resume_line,
    sign,
    smallest_lines,
    worth_line,
)
from chaoskit.reports.wording import plural, safe, seconds

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|@~&-])")


def render(matrix: Matrix) -> str:
    """Return the page."""
    return "\n".join(_lines(matrix)) + "\n"


def _t(text: str) -> str:
    """Text that Markdown takes for text; nobody is notified by it."""
    return _SPECIAL.sub(r"\\\1", safe(text, longest=400))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lines(matrix: Matrix) -> Iterator[str]:
    found, origin = counts(matrix), matrix.origin
    yield f"# Guards × scenarios: {_t(origin.profile)}"
    yield ""
    if matrix.interrupted:
        yield f"**Interrupted**: cells that are empty were not run. {_t(_capital(resume_line(matrix)))}"
        yield ""
    if origin.program:
        yield f"Program: {_t(origin.program)}"
        yield ""
    unneeded = f"{plural(found.not_needed, 'fault')} not needed. " if found.not_needed else ""
    yield (
        f"Profile: {', '.join(map(_t, held_lines(matrix)))}. {unneeded}"
        f"Backend {_t(origin.backend)}, torch {_t(origin.torch)}, seed {origin.seed}, each cell run "
        f"{'once' if origin.repeat == 1 else f'{origin.repeat} times'}. {_t(effort_line(matrix))}."
    )
    yield from (f"\n{_t(line)}" for line in broken_lines(matrix))
    for label, names in (
        ("Not held", found.not_held),
        ("False alarm", found.alarms),
        ("Unclear", found.unclear),
        ("Skipped", found.skipped),
        ("Not known yet", found.unknown),
    ):
        if names:
            yield f"\n**{label}**: {', '.join(map(_t, names))}"
    yield "\n## Smallest set\n"
    yield from (f"- {_t(line)}" for line in smallest_lines(matrix))
    if gaps := gap_lines(matrix):
        yield "\n## What the profile lacks\n"
        yield "Each was added to the profile and run.\n"
        yield from (f"- {_t(line)}" for line in gaps)
    yield from _reasons(matrix)
    yield from _parts(matrix)
    yield from _tables(matrix)
    if matrix.notes:
        yield ""
        yield from (f"- {_t(note)}" for note in matrix.notes)
    if matrix.not_kept:
        yield "\nThese cells are run again when the matrix is gone on with:\n"
        yield from (f"- {_t(line)}" for line in matrix.not_kept)


def _reasons(matrix: Matrix) -> Iterator[str]:
    found = reasons(matrix)
    if not found:
        return
    yield "\n## Under the profile not held, unclear or skipped, and why\n"
    lines = [(_t(", ".join(names)), mark, _t(reason)) for mark, reason, names in found]
    yield from _table(("scenarios", "result", "reason"), lines)


def _parts(matrix: Matrix) -> Iterator[str]:
    if not matrix.worth:
        return
    yield "\n## Each guard\n"
    lines = [(_t(w.part), _t(worth_line(w, matrix.interrupted))) for w in matrix.worth]
    yield from _table(("guard", "worth"), lines)
    if parts := never(matrix):
        yield f"\nNever matter here: {', '.join(map(_t, parts))}."
    if parts := replaceable(matrix):
        said = "Each can be replaced by another of the profile, which says nothing of several"
        yield f"\n{said}: {', '.join(map(_t, parts))}."
    if parts := open_parts(matrix):
        yield f"\nNot known whether they matter: {', '.join(map(_t, parts))}."


def _tables(matrix: Matrix) -> Iterator[str]:
    alone = [column for column in matrix.columns if column.form == "alone"]
    without = [column for column in matrix.columns if column.form == "without"]
    yield "\n## No guard, each guard alone, the profile\n"
    yield _legend(matrix)
    yield ""
    yield from _cells(matrix.rows, [NONE, *alone, PROFILE])
    yield "\n## The profile without one guard\n"
    yield from _cells([row for row in matrix.rows if not row.healthy], [PROFILE, *without])


def _cells(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[str]:
    heads = ["no guard" if c == NONE else c.part or "profile" for c in columns]
    lines = []
    for row in rows:
        profile = row.cell(PROFILE)
        latency = seconds(profile.latency_s) if profile is not None and profile.latency_s is not None else ""
        lines.append((_t(row.scenario), *(sign(row.cell(column)) for column in columns), latency))
    yield from _table(("scenario", *map(_t, heads), "latency"), lines)


def _legend(matrix: Matrix) -> str:
    used = dict.fromkeys(cell.mark for row in matrix.rows for cell in row.cells)
    known = [f"{SIGNS[mark]} {MEANING[mark]}" for mark in used if mark is not Mark.NOT_RUN]
    cells = [cell for row in matrix.rows for cell in row.cells]
    if any(sign(cell) == LATE_SIGN for cell in cells):
        known.append(f"{LATE_SIGN} {ENDED}")
    if any(cell.mark is Mark.NOT_RUN for cell in cells):
        known.append("empty: not run")
    return "; ".join(known)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield table_row(head)
    yield f"|{'|'.join(['---'] * len(head))}|"
    yield from map(table_row, rows)
