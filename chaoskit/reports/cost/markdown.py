"""The report of a cost in Markdown, for a merge request or a wiki. What a name says stands in code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaoskit.cost.limit import exit_code
from chaoskit.cost.sentence import by_treatment, sentence
from chaoskit.cost.values import CostReport
from chaoskit.errors import ExitCode
from chaoskit.reports.cost.rows import (
    AGAIN,
    ANYWHERE,
    EXTRAPOLATED,
    WATCHED,
    detected,
    limited,
    notes,
    origin,
    rows,
    title,
)
from chaoskit.reports.markdown_text import CHARACTERS_MAX, code, table_row
from chaoskit.reports.wording import safe

_MARK = {ExitCode.OK: "✅", ExitCode.NOT_HELD: "❌"}


def render(report: CostReport, limit: float | None = None) -> str:
    """Return the report, of about :data:`CHARACTERS_MAX` characters at most."""
    mark = f"{_MARK.get(exit_code(report, limit), '❔')} " if limit is not None else ""
    lines = [f"## {mark}{title(report)}", "", code("; ".join(origin(report))), ""]
    each = by_treatment(report.comparisons).values()
    lines += [f"- {_sentence(sentence(own, report.detections))}" for own in each]
    if limit is not None:
        lines += ["", limited(report, limit) + "."]
    lines += ["", *_prices(report, limit), *_detection(report)]
    if found := notes(report):
        lines += ["", *(f"- {code(note)}" for note in found)]
    if report.rerun:
        folder = code(report.folder, longest=CHARACTERS_MAX) or ANYWHERE
        lines += ["", f"{AGAIN} {folder}, by {code(report.rerun, longest=CHARACTERS_MAX)}"]
    return _bounded(lines)


def _prices(report: CostReport, limit: float | None) -> Iterable[str]:
    found = list(rows(report, limit))
    heads = ["what", "case", "plain", "with", "cost", "95 % interval", "rounds/starts"]
    with_bandwidth = any(row.bandwidth for row in found)
    heads += (["bus GB/s"] if with_bandwidth else []) + (["limit"] if limit is not None else [])
    yield table_row(heads)
    yield table_row(["---", "---", *["--:"] * (len(heads) - 2)])
    for row in found:
        cells = [cell(row.treatment), cell(row.case)]
        if row.said:
            left = len(heads) - 3 - (limit is not None)
            cells += [cell(row.said), *[""] * left, *([row.limit] if limit is not None else [])]
        else:
            cost = f"**{row.cost}**" if row.is_difference else row.cost
            cells += [row.plain, row.treated, cost, row.interval, row.rounds]
            cells += ([row.bandwidth] if with_bandwidth else []) + ([row.limit] if limit is not None else [])
        yield table_row(cells)


def _detection(report: CostReport) -> Iterable[str]:
    names, found = detected(report)
    if not found:
        return
    yield "\n### Until the job has ended\n"
    yield table_row(["after", *(cell(name) for name in names)])
    yield table_row(["---", *["--:"] * len(names)])
    for row in found:
        yield table_row([f"{row.fault} ({cell(row.scenario)})", *(safe(time) for time in row.times)])
    yield f"\n{EXTRAPOLATED} {WATCHED}"


def cell(text: str) -> str:
    """Return ``text`` as code within a table, in which a bar would begin a new cell."""
    return code(text.replace("|", "¦"))


def _sentence(text: str) -> str:
    """A sentence names files and programs, which may hold anything: nothing of it is Markdown or HTML."""
    shown = safe(text)
    for sign in "\\`*_{}[]<>#|~@&":
        shown = shown.replace(sign, f"\\{sign}" if sign not in "<>&@" else f"&#{ord(sign)};")
    return shown


def _bounded(lines: Sequence[str]) -> str:
    kept: list[str] = []
    room = CHARACTERS_MAX
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            kept.append(f"\n{len(lines) - number} more lines are left out; `--json FILE` has all.")
            break
        kept.append(line)
    return "\n".join(kept) + "\n"
