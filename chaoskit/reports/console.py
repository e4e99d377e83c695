"""Makes the rich consoles that the terminal reports print to, and the lines they print.

Everything printed is a :class:`rich.text.Text` of text that is already safe: no markup, no
emoji codes and no highlighting is ever looked for in what a user's file or a rank says.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO

from rich.console import Console
from rich.text import Text

from chaoskit.model import Result, Status
from chaoskit.reports.wording import LONGEST_NAME, LONGEST_TEXT, safe

WIDTH_WITHOUT_TERMINAL = 120
"""Columns in a pipe or a file, where nothing says how wide the reader's screen is."""

STYLE = {
    Status.PASS: "green",
    Status.FAIL: "bold red",
    Status.INCONCLUSIVE: "yellow",
    Status.SKIPPED: "dim",
    Result.HELD: "green",
    Result.NOT_HELD: "bold red",
    Result.NOT_NEEDED: "cyan",
    Result.INCONCLUSIVE: "yellow",
    Result.SKIPPED: "dim",
}
_MARK = {
    Status.PASS: ("✓", "+"),
    Status.FAIL: ("✗", "x"),
    Status.INCONCLUSIVE: ("?", "?"),
    Status.SKIPPED: ("-", "-"),
    Result.HELD: ("✓", "+"),
    Result.NOT_HELD: ("✗", "x"),
    Result.NOT_NEEDED: ("○", "o"),
    Result.INCONCLUSIVE: ("?", "?"),
    Result.SKIPPED: ("-", "-"),
}


class ReportConsole(Console):
    """A console whose reader may go away without ending the process.

    rich would raise SystemExit from the middle of a run, with ranks alive.
    """

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def console_for(stream: IO[str]) -> Console:
    """Return a console on ``stream``: colour only on a terminal, none with NO_COLOR."""
    width = None if _is_terminal(stream) or os.environ.get("COLUMNS") else WIDTH_WITHOUT_TERMINAL
    return ReportConsole(file=stream, width=width, markup=False, emoji=False, highlight=False)


def _is_terminal(stream: IO[str] | None) -> bool:
    """Say whether ``stream`` is one; it is None where the caller has closed it."""
    return stream is not None and stream.isatty()


def is_live(stream: IO[str], console: Console) -> bool:
    """Say whether a table that redraws itself makes sense: a real terminal, and no CI log."""
    if os.environ.get("CI"):
        return False
    return _is_terminal(stream) and console.is_terminal and not console.is_dumb_terminal


class Pen:
    """Makes text fit for one console: safe, and plain ASCII where its encoding is not UTF-8."""

    def __init__(self, console: Console) -> None:
        self._ascii = not console.encoding.lower().startswith("utf")

    def name(self, text: str) -> str:
        """Return a name, safe and of bounded length."""
        return safe(text, longest=LONGEST_NAME, ascii_only=self._ascii)

    def text(self, text: str) -> str:
        """Return a reason or message, safe and of bounded length."""
        return safe(text, longest=LONGEST_TEXT, ascii_only=self._ascii)

    def line(self, text: str, longest: int) -> str:
        """Return a line that a program printed, safe, with what a tab stood for and without its end."""
        return safe(text.expandtabs(4).rstrip(), longest=longest, ascii_only=self._ascii)

    def mark(self, verdict: Status | Result) -> str:
        """Return the one character that stands for ``verdict``."""
        return _MARK[verdict][self._ascii]

    @property
    def more(self) -> str:
        """Return the sign for text that was cut."""
        return "~" if self._ascii else "…"

    def fit(self, text: Text, width: int) -> Text:
        """Return ``text`` cut to ``width`` columns."""
        if text.cell_len <= width:
            return text
        cut = text.copy()
        cut.truncate(max(0, width - 1), overflow="crop")
        cut.append(self.more)
        return cut


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a report. One that is there to be copied is never broken: only the terminal may wrap it."""

    text: Text
    copied: bool = False


def wrapped(console: Console, text: Text, first: int, rest: int) -> list[Line]:
    """Return ``text`` in lines of the width, the first one indented by ``first``, the others by ``rest``."""
    width = max(console.width, rest + 8)
    lines = text.wrap(console, width - rest + (rest - first if text.cell_len <= width - first else 0))
    made = []
    for number, line in enumerate(lines):
        line.rstrip()
        # What a file or a rank says must not become a command to the runner of a GitHub job.
        shown = Text.assemble("\\", line) if line.plain.lstrip().startswith("::") else line
        made.append(Line(Text.assemble(" " * (first if number == 0 else rest), shown)))
    return made


def fact(console: Console, key: str, value: str, indent: int) -> list[Line]:
    """Return ``key: value``, wrapped, with the key dimmed."""
    return wrapped(console, Text.assemble((f"{key}: ", "dim"), value), indent, indent + 2)


def unbroken(key: str, value: str, indent: int) -> list[Line]:
    """Return a line that is there to be copied."""
    return [Line(Text.assemble(" " * indent, (f"{key}: ", "dim"), value), copied=True)]


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    for line in lines:
        console.print(line.text, soft_wrap=True)


def print_wrapped(console: Console, text: Text, first: int, rest: int) -> None:
    """Print ``text`` within the width, its first line indented by ``first``, the others by ``rest``."""
    print_lines(console, wrapped(console, text, first, rest))


def print_fact(console: Console, key: str, value: str, indent: int) -> None:
    """Print ``key: value``, wrapped, with the key dimmed."""
    print_lines(console, fact(console, key, value, indent))


def print_unbroken(console: Console, key: str, value: str, indent: int) -> None:
    """Print a line that is there to be copied: the terminal may wrap it, chaoskit does not."""
    print_lines(console, unbroken(key, value, indent))
