"""The report of a cost on the terminal: prices, detection, one sentence for each treatment. ≤ 100 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from chaoskit.cost.sentence import sentences
from chaoskit.cost.values import CostReport
from chaoskit.reports.console import Pen, print_wrapped
from chaoskit.reports.cost.rows import (
    EXTRAPOLATED,
    Row,
    detected,
    limited,
    notes,
    origin,
    rows,
    title,
)

COLUMNS_MAX: Final = 100
_NAME_MAX, _CASE_MAX, _PROBLEM_MAX = 20, 24, 300
_STYLE: Final = {"above": "bold red", "within": "green", "unclear": "yellow", "": ""}
_SIGNS: Final = {"µ": "u", "×": "x", "→": "->", "–": "-"}
_GAP: Final = "  "


def print_report(report: CostReport, limit: float | None, console: Console) -> None:
    """Print all that was measured. Names of files and programs are made safe here."""
    console.width = min(console.width, COLUMNS_MAX)
    pen = Pen(console)
    print_wrapped(console, Text(title(report), "bold"), 0, 2)
    print_wrapped(console, Text(_plain("; ".join(origin(report)), pen), "dim"), 0, 2)
    _print_prices(list(rows(report, limit)), console, pen)
    _print_detection(report, console, pen)
    console.print()
    for said in sentences(report.comparisons, report.detections):
        print_wrapped(console, Text(_plain(said, pen)), 0, 2)
    if limit is not None:
        print_wrapped(console, Text(_plain(limited(report, limit), pen)), 0, 2)
    for note in notes(report):
        print_wrapped(console, Text(_plain(f"note: {note}", pen), "dim"), 0, 6)


def _print_prices(found: Sequence[Row], console: Console, pen: Pen) -> None:
    with_bandwidth = any(row.bandwidth for row in found)
    with_limit = any(row.limit for row in found)
    several = with_bandwidth or len({row.treatment for row in found}) < len(found)
    heads = ["", "plain", "with", "cost", "95 % interval"]
    heads += (["bus GB/s"] if with_bandwidth else []) + (["limit"] if with_limit else [])
    lines = []
    for row in found:
        case = _cut(row.case, _CASE_MAX, pen)
        name = f"  {case}" if several else f"{_cut(row.treatment, _NAME_MAX, pen):<{_NAME_MAX}}  {case}"
        cells = [name, row.plain, row.treated, row.cost, row.interval]
        cells += ([row.bandwidth] if with_bandwidth else []) + ([row.limit] if with_limit else [])
        lines.append([_plain(cell, pen) if n else cell for n, cell in enumerate(cells)])
    widths = [max(len(line[n]) for line in (heads, *lines)) for n in range(len(heads))]
    console.print()
    console.print(Text(_line(heads, widths), "dim"), soft_wrap=True)
    last = ""
    for row, cells in zip(found, lines, strict=True):
        if several and row.treatment != last:
            console.print(Text(_cut(row.treatment, COLUMNS_MAX, pen), "bold"), soft_wrap=True)
        last = row.treatment
        if row.said:
            problem = _cut(row.said, _PROBLEM_MAX, pen)
            problem += f"; limit: {row.limit}" if row.limit else ""
            text = Text(f"{cells[0]:<{widths[0]}}{_GAP}{problem}", "yellow")
            print_wrapped(console, text, 0, widths[0] + len(_GAP))
            continue
        style = _STYLE[row.limit] or ("" if row.is_difference else "dim")
        console.print(Text(_line(cells, widths), style), soft_wrap=True)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, figures to the right."""
    made = [
        cell.ljust(width) if number == 0 else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ]
    return _GAP.join(made).rstrip()


def _print_detection(report: CostReport, console: Console, pen: Pen) -> None:
    names, found = detected(report)
    if not found:
        return
    console.print()
    console.print(Text("Until the job has ended after", "bold"))
    shown = [_cut(name, 18, pen) for name in names]
    faults = max(len(row.fault) for row in found)
    times = [[_cut(time, 18, pen) for time in row.times] for row in found]
    widths = [max(len(s), *(len(line[n]) for line in times)) for n, s in enumerate(shown)]
    per_line = max(1, (COLUMNS_MAX - faults - 2) // (max(widths) + 2))
    for first in range(0, len(shown), per_line):
        part = slice(first, first + per_line)
        _print_times([row.fault for row in found], times, shown, widths, part, console)
    print_wrapped(console, Text(EXTRAPOLATED.replace("*", ""), "dim"), 2, 2)


def _print_times(
    faults: list[str],
    times: list[list[str]],
    names: list[str],
    widths: list[int],
    part: slice,
    console: Console,
) -> None:
    wide = max(map(len, faults))
    head = _GAP.join(n.rjust(w) for n, w in zip(names[part], widths[part], strict=True))
    console.print(Text(f"  {'':<{wide}}  {head}", "dim"), soft_wrap=True)
    for fault, line in zip(faults, times, strict=True):
        cells = _GAP.join(t.rjust(w) for t, w in zip(line[part], widths[part], strict=True))
        console.print(Text(f"  {fault:<{wide}}  {cells}"), soft_wrap=True)


def _cut(text: str, longest: int, pen: Pen) -> str:
    shown = _plain(text, pen)
    return shown if len(shown) <= longest else shown[: longest - 1] + pen.more


def _plain(text: str, pen: Pen) -> str:
    """Safe; and signs of ours are read also where only ASCII can be printed."""
    if pen.more != "…":
        for sign, instead in _SIGNS.items():
            text = text.replace(sign, instead)
    return pen.text(text)
