"""A comparison of two runs on the terminal: of runs that are alike it takes a few lines."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.text import Text

from chaoskit.compare.comparison import Comparison
from chaoskit.model import Result
from chaoskit.reports.compare_sections import (
    Section,
    Standing,
    conclusion,
    heading,
    sections,
    standing,
    unchanged,
)
from chaoskit.reports.console import STYLE, Pen, print_wrapped

LINES_MAX = 20
"""Lines of one section; all of them are in the Markdown and in the JSON."""
_SHOWN_AS: Final[dict[Standing, Result]] = {
    "broke": Result.NOT_HELD,
    "failing": Result.INCONCLUSIVE,
    "unclear": Result.INCONCLUSIVE,
    "kept": Result.HELD,
}


def print_comparison(found: Comparison, console: Console) -> None:
    """Print what differs between the two runs, and what that comes to."""
    pen = Pen(console)
    for which, side in (("A", found.a), ("B", found.b)):
        print_wrapped(console, Text(pen.text(heading(which, side)), "dim"), 0, 4)
    print_wrapped(console, Text(pen.text(unchanged(found))), 0, 4)
    for section in sections(found):
        _print_section(section, console, pen)
    print_wrapped(console, Text(pen.text(conclusion(found)), STYLE[_SHOWN_AS[standing(found)]]), 0, 4)


def _print_section(section: Section, console: Console, pen: Pen) -> None:
    style = STYLE[section.result] if section.result is not None else "bold"
    print_wrapped(console, Text(pen.text(section.title), style), 0, 4)
    for line in section.lines[:LINES_MAX]:
        print_wrapped(console, Text(pen.text(_arrows(line, pen))), 2, 6)
    if (more := len(section.lines) - LINES_MAX) > 0:
        left = f"and {more} more: --markdown FILE or --format json has all"
        print_wrapped(console, Text(left, "dim"), 2, 6)


def _arrows(line: str, pen: Pen) -> str:
    """Where only ASCII can be printed, signs of ours are to be read all the same."""
    return line if pen.more == "…" else line.replace(" → ", " -> ").replace("×", "x").replace("…", "...")
