"""Claims on the terminal: each with its answer and what was seen."""

from __future__ import annotations

from collections import Counter
from typing import Final

from rich.console import Console
from rich.text import Text

from chaoskit.claims.values import Answer
from chaoskit.reports.claims.page import Page, Row, compared
from chaoskit.reports.console import Pen, print_fact, print_wrapped
from chaoskit.reports.wording import plural, seconds

_STYLE: Final = {
    Answer.TRUE: "green",
    Answer.HARMLESS: "green",
    Answer.HARMFUL: "bold red",
    Answer.NOT_SO: "bold red",
    Answer.PARTLY: "yellow",
    Answer.UNSTEADY: "yellow",
    Answer.UNCLEAR: "yellow",
    Answer.NO_EFFECT: "cyan",
    Answer.NOT_NEEDED: "cyan",
    Answer.NOT_RUN: "dim",
}


def print_page(page: Page, console: Console) -> None:
    """Print every claim, and what they come to."""
    pen = Pen(console)
    alone = Counter(row.says for row in page.rows if row.answer is Answer.NOT_RUN)
    for row in page.rows:
        if row.answer is not Answer.NOT_RUN or alone[row.says] == 1:
            _print(row, console, pen)
    for says, count in alone.items():
        if count > 1:
            _print_not_run(says, page, console, pen)
    counts = Counter(row.answer for row in page.rows)
    said = ", ".join(f"{count} {answer}" for answer, count in counts.items()) or "nothing was asked"
    console.print()
    line = f"{plural(len(page.rows), 'claim')} on torch {page.torch} in {seconds(page.wall_s)}: {said}"
    print_wrapped(console, Text(pen.text(line), "bold"), 0, 4)
    if page.interrupted:
        print_wrapped(console, Text("interrupted: what was not finished has no answer", "yellow"), 0, 4)
    for backend, why in page.not_run:
        print_wrapped(console, Text(pen.text(f"not run on {backend}: {why}"), "yellow"), 0, 4)
    print_fact(console, "run directory", pen.text(page.run_dir), 0)


def print_changes(before: Page, now: Page, console: Console) -> None:
    """Print which answers are not those of an earlier run, and of how many that can be said."""
    pen = Pen(console)
    pairs = compared(before, now)
    changes = [(old, new) for old, new in pairs if old.answer is not new.answer]
    for old, new in changes:
        line = (
            f"{pen.name(new.name)} [{pen.name(new.backend)}]: {old.answer} on torch {pen.name(before.torch)}"
        )
        print_wrapped(console, Text(f"changed: {line}, {new.answer} now", "bold red"), 0, 4)
    if not pairs:
        line = f"nothing could be compared: no claim has an answer here and on torch {pen.name(before.torch)}"
        print_wrapped(console, Text(line, "yellow"), 0, 4)
        return
    said = "no answer differs" if not changes else f"{len(changes)} differ"
    line = f"compared with torch {pen.name(before.torch)}: {plural(len(pairs), 'claim')}, {said}"
    print_wrapped(console, Text(line), 0, 4)


def _print_not_run(says: str, page: Page, console: Console, pen: Pen) -> None:
    """Claims that were not run, all for one reason."""
    rows = [row for row in page.rows if row.answer is Answer.NOT_RUN and row.says == says]
    names = ", ".join(dict.fromkeys(pen.name(row.name) for row in rows))
    console.print()
    print_wrapped(console, Text(f"{plural(len(rows), 'claim')} not run: {names}", "dim"), 0, 4)
    print_wrapped(console, Text(pen.text(says)), 2, 4)


def _print(row: Row, console: Console, pen: Pen) -> None:
    backend = f" [{pen.name(row.backend)}]" if row.backend != "gloo" else ""
    head = Text.assemble((pen.name(row.name), "bold"), backend, ": ", (str(row.answer), _STYLE[row.answer]))
    console.print()
    print_wrapped(console, head, 0, 4)
    print_fact(console, "told", pen.text(row.told), 2)
    if row.answer is Answer.NOT_RUN:
        print_wrapped(console, Text(pen.text(row.says)), 2, 4)
    for trial in () if row.answer is Answer.NOT_RUN else row.trials:
        where = f"{trial.scenario}, {trial.timeouts}" if trial.timeouts else trial.scenario
        print_fact(console, pen.text(where), pen.text(trial.says), 2)
