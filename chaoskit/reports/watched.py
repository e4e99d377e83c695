"""What is said of a program that was watched as it is: its outcome, who is to blame, what that rank printed.

What ranks printed comes as :class:`Excerpt`, already read: this module opens no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from chaoskit.model import Outcome, RankEnd, Status, Verdict
from chaoskit.reports.console import STYLE, Pen, print_fact, print_unbroken, print_wrapped
from chaoskit.reports.judged import Judged
from chaoskit.reports.wording import (
    cause_of,
    closer_look,
    culprits_of,
    end_of,
    evidence_of,
    operation,
    origin_of,
    outcome_of,
    place_of,
    plural,
    ranks_of,
    reason_of,
    seconds,
    victims_of,
    words,
)

_INDENT = 4
_LONGEST_LINE = 300
_EVIDENCE_MAX = 3


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The last lines of what a process printed. The lines are as it printed them: hostile."""

    who: str
    path: Path
    lines: tuple[str, ...]
    cut: bool = False  # there was more before them


@dataclass(frozen=True, slots=True)
class Watched:
    """What a report needs beside the verdict: what was watched, and what its processes printed."""

    program: str
    excerpts: tuple[Excerpt, ...] = ()
    output: Path | None = None
    """The folder of the arm, whose rank<N> folders hold what the ranks printed."""


def print_watched(judged: Judged, watched: Watched, console: Console) -> None:
    """Print the verdict on the program, and all that helps to find its cause."""
    pen = Pen(console)
    verdict = next(iter(reversed(judged.verdicts)), None)
    if verdict is None:
        print_wrapped(console, Text(f"{pen.name(watched.program)}: nothing was judged", style="yellow"), 0, 2)
    else:
        _print_heading(verdict, watched, console, pen)
        for key, value in _facts(verdict):
            show = print_unbroken if key == "where" else print_fact  # an editor opens file:line by a click
            show(console, key, pen.text(value), _INDENT)
        for excerpt in watched.excerpts:
            _print_excerpt(excerpt, console, pen)
    _print_footer(judged, verdict, watched, console, pen)


def _print_heading(verdict: Verdict, watched: Watched, console: Console, pen: Pen) -> None:
    style = STYLE[verdict.status]
    took = f" in {seconds(verdict.latency_s)}" if verdict.status is Status.PASS and verdict.latency_s else ""
    status = "" if verdict.status is Status.PASS else f"  {words(verdict.status)}"
    who = culprits_of(verdict)
    where = ", ".join(p for p in (plural(len(verdict.ranks), "rank"), verdict.backend, verdict.profile) if p)
    heading = Text.assemble(
        (f"{pen.mark(verdict.status)} ", style),
        (pen.name(watched.program), "bold"),
        (status, style),
        (f"  {outcome_of(verdict)}{took}" if verdict.outcome is not None else "", style),
        f"  {pen.text(who)}" if who else "",
        (f"  [{where}]", "dim"),
    )
    print_wrapped(console, heading, 0, _INDENT)


def _facts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    if verdict.reason:
        yield "result" if verdict.status is Status.PASS else "reason", reason_of(verdict)
    yield from cause_of(verdict)
    yield from evidence_of(verdict, _EVIDENCE_MAX)
    yield from place_of(verdict)
    if verdict.status is not Status.PASS:
        if operations := _operations(verdict.ranks):
            yield "last operation", operations
        if ends := _ends(verdict.ranks):
            yield "ended", ends
    yield from victims_of(verdict)
    if verdict.stragglers:
        yield "the others waited for", ", ".join(str(c) for c in verdict.stragglers)
    for note in verdict.notes:
        yield "note", note
    if verdict.not_applicable:
        yield "not applicable", f"{', '.join(verdict.not_applicable)} (on {verdict.backend})"


def _operations(ends: Iterable[RankEnd]) -> str:
    """Return which ranks had got how far: ``all_reduce #9: ranks 0, 1; all_reduce #8: rank 2``."""
    by_last: dict[str, list[int]] = {}
    for end in ends:
        if end.last is not None:
            by_last.setdefault(operation(end.last), []).append(end.rank)
    return "; ".join(f"{op}: {ranks_of(ranks)}" for op, ranks in by_last.items())


def _ends(ends: Iterable[RankEnd]) -> str:
    by_end: dict[str, list[RankEnd]] = {}
    for end in ends:
        by_end.setdefault(end_of(end.exit_code), []).append(end)
    return "; ".join(f"{ranks_of(e.rank for e in same)} {how}{_when(same)}" for how, same in by_end.items())


def _when(same: list[RankEnd]) -> str:
    times = sorted(e.ended_s for e in same if e.ended_s is not None)
    if not times:
        return ""
    first, last = seconds(times[0]), seconds(times[-1])
    return f" after {first}" if first == last else f" after {first} to {last}"


def _print_excerpt(excerpt: Excerpt, console: Console, pen: Pen) -> None:
    head = f"the end of what {excerpt.who} printed" if excerpt.cut else f"what {excerpt.who} printed"
    print_unbroken(console, head, pen.text(str(excerpt.path)), _INDENT)
    for line in excerpt.lines:
        console.print(Text(f"{' ' * _INDENT}  | {pen.line(line, _LONGEST_LINE)}"), soft_wrap=True)


def _print_footer(
    judged: Judged, verdict: Verdict | None, watched: Watched, console: Console, pen: Pen
) -> None:
    if verdict is not None and verdict.status is not Status.PASS and verdict.rerun:
        print_unbroken(console, "rerun", pen.text(verdict.rerun), _INDENT)
    if watched.output is not None:
        hung = verdict is not None and verdict.outcome in (Outcome.HUNG, Outcome.OVERDUE)
        what = "output and stacks of the ranks" if hung else "output of the ranks"
        print_unbroken(console, what, pen.text(f"{watched.output}/rank<N>/"), _INDENT)
    if judged.interrupted:
        print_wrapped(console, Text("interrupted: what was not finished is not judged", style="yellow"), 0, 2)
    print_wrapped(console, Text(pen.text(origin_of(judged.seed, judged.torch))), 0, 2)
    print_unbroken(console, "run directory", pen.text(str(judged.run_dir)), 0)
    print_unbroken(console, "report", pen.text(closer_look(str(judged.run_dir))), 0)
