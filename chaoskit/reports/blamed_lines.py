"""Why an arm ended as it did, in lines of a terminal: cause, evidence, the user's line, who suffered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from chaoskit.model import Verdict
from chaoskit.reports.console import Line, Pen, fact, unbroken
from chaoskit.reports.wording import cause_of, evidence_of, place_of, victims_of


@dataclass(frozen=True, slots=True)
class Room:
    """How much may be said: pieces of evidence, lines of one fact (None: all), remarks on settings."""

    evidence: int = 2
    lines: int | None = None
    remarks: bool = True


def blamed(verdict: Verdict, room: Room, console: Console, pen: Pen, indent: int) -> Iterator[Line]:
    """Yield what there is to say of who did it; nothing where nobody is named."""
    for key, value in cause_of(verdict):
        yield from cut(fact(console, key, pen.text(value), indent), room.lines, console, pen)
    for key, value in evidence_of(verdict, room.evidence):
        kept = None if room.lines is None else 1
        yield from cut(fact(console, key, pen.text(value), indent), kept, console, pen)
    for key, value in place_of(verdict):  # an editor opens file:line by a click: never broken
        yield from unbroken(key, pen.text(value), indent)
    for key, value in victims_of(verdict):
        yield from cut(fact(console, key, pen.text(value), indent), room.lines, console, pen)


def cut(lines: list[Line], most: int | None, console: Console, pen: Pen) -> list[Line]:
    """Return the first ``most`` of the lines of a fact; the sign for a cut stands at the end of the last."""
    if most is None or len(lines) <= most:
        return lines
    last = Text.assemble(lines[most - 1].text, f" {pen.more}")
    return [*lines[: most - 1], Line(pen.fit(last, console.width))]
