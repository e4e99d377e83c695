"""The summary on the terminal: each scenario's result, each arm's facts, and how to look closer.

Columns where there is room, one fact after the other where there is not. What is not held,
inconclusive or skipped always says why and how to run it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from chaoskit.model import Result, ScenarioResult, Status, Verdict
from chaoskit.reports.console import STYLE, Pen, print_fact, print_unbroken, print_wrapped
from chaoskit.reports.judged import Judged
from chaoskit.reports.repeats import ArmRepeats, Same, by_arm
from chaoskit.reports.wording import (
    culprits_of,
    ended_by_of,
    latency_of,
    origin_of,
    outcome_of,
    plural,
    production_bound_of,
    seconds,
    words,
)

NARROW = 72
"""Below this many columns an arm is written as one fact after the other."""
_INDENT = 4
_DETAIL_INDENT = 8
_WIDEST_COLUMN = 24


@dataclass(frozen=True, slots=True)
class _Row:
    """The facts of one arm, ready to print, in the order of the columns."""

    status: Status
    arm: str
    outcome: str
    latency: str
    culprit: str
    last: str  # production bound, repeats, what ended it: no column, as nothing follows

    @property
    def columns(self) -> tuple[str, str, str, str]:
        return self.arm, self.outcome, self.latency, self.culprit


def print_summary(judged: Judged, console: Console) -> None:
    """Print everything that is known about ``judged``."""
    pen = Pen(console)
    arms = [by_arm(r.verdicts) for r in judged.scenarios]
    widths = _widths(_row(g, a, pen) for repeats in arms for a in repeats for g in a.groups)
    told: dict[str, str] = {}
    for result, repeats in zip(judged.scenarios, arms, strict=True):
        common = _common_reason(result)
        _print_heading(result, common, told, console, pen)
        _print_arms(result, repeats, common, widths, console, pen)
    _print_footer(judged, console, pen)


def _print_heading(
    result: ScenarioResult, common: str, told: dict[str, str], console: Console, pen: Pen
) -> None:
    """Print the result and why. ``told``: which scenario has given a reason that all its arms share."""
    style = STYLE[result.result]
    heading = Text.assemble(
        (f"{pen.mark(result.result)} ", style),
        (pen.name(result.name), "bold"),
        (f"  {words(result.result)}", style),
        (f"  [{result.backend}]", "dim"),
    )
    print_wrapped(console, heading, 0, _INDENT)
    news = common or _news(result)
    if result.result is not Result.HELD and news:
        first = told.setdefault(common, result.name) if common else result.name
        reason = pen.text(news) if first == result.name else f"the same as of {pen.name(first)}"
        print_fact(console, "reason", reason, _INDENT)


def _common_reason(result: ScenarioResult) -> str:
    """Return the reason that all arms share (a program that cannot be used): it is said once."""
    reasons = {"" if v.status is Status.PASS else v.reason for v in result.verdicts}
    return reasons.pop() if len(reasons) == 1 and len(result.verdicts) > 1 else ""


def _print_arms(
    result: ScenarioResult,
    arms: tuple[ArmRepeats, ...],
    common: str,
    widths: tuple[int, ...],
    console: Console,
    pen: Pen,
) -> None:
    shared = _shared_notes(result)
    for note in shared:
        print_fact(console, "note", pen.text(note), _INDENT)
    for arm in arms:
        for same in arm.groups:
            _print_arm(same, arm, widths, console, pen)
            _print_details(same, arm, common, console, pen)
        _print_notes(arm, shared, console, pen)
        for attempt in arm.superseded:
            said = f"{outcome_of(attempt)}, {words(attempt.status)}: {attempt.reason}"
            print_fact(console, f"attempt {attempt.attempt} before", pen.text(said), _DETAIL_INDENT)


def _shared_notes(result: ScenarioResult) -> tuple[str, ...]:
    """Return what is noted of every arm: said once, above them."""
    first, *others = result.verdicts or (None,)
    if first is None:
        return ()
    return tuple(n for n in dict.fromkeys(first.notes) if all(n in v.notes for v in others))


def _print_notes(arm: ArmRepeats, shared: tuple[str, ...], console: Console, pen: Pen) -> None:
    verdicts = [v for group in arm.groups for v in group.verdicts]
    if names := list(dict.fromkeys(str(c) for v in verdicts for c in v.stragglers)):
        print_fact(console, "the others waited for", pen.text(", ".join(names)), _DETAIL_INDENT)
    for note in dict.fromkeys(n for v in verdicts for n in v.notes if n not in shared):
        print_fact(console, "note", pen.text(note), _DETAIL_INDENT)


def _news(result: ScenarioResult) -> str:
    """Return the scenario's reason without the part that is printed with an arm anyway."""
    reason = result.reason
    for verdict in result.verdicts:
        if verdict.status is not Status.PASS and verdict.reason:
            reason = reason.removesuffix(verdict.reason)
    return reason.rstrip(": ")


def _print_arm(same: Same, arm: ArmRepeats, widths: tuple[int, ...], console: Console, pen: Pen) -> None:
    row = _row(same, arm, pen)
    style = STYLE[row.status]
    mark = Text(f"{pen.mark(row.status)} ", style=style)
    if console.width < NARROW:
        facts = ", ".join(p for p in (row.outcome, row.latency, row.culprit, row.last) if p)
        print_wrapped(console, Text.assemble(mark, f"{row.arm}: ", (facts, style)), _INDENT, _DETAIL_INDENT)
    else:
        cells = [_padded(c, w) for c, w in zip(row.columns, widths, strict=True)]
        line = Text.assemble(mark, cells[0], (cells[1], style), *cells[2:], row.last)
        line.rstrip()
        print_wrapped(console, line, _INDENT, _DETAIL_INDENT)


def _print_details(same: Same, arm: ArmRepeats, common: str, console: Console, pen: Pen) -> None:
    verdict = same.first
    if arm.diverges:
        print_fact(console, "repeats", ", ".join(str(v.repeat) for v in same.verdicts), _DETAIL_INDENT)
    if verdict.status is Status.PASS:
        return
    if not common:
        reason = pen.text(verdict.reason or "no reason was given")
        print_fact(console, words(verdict.status), reason, _DETAIL_INDENT)
    if verdict.where:
        print_fact(console, "where", pen.text(verdict.where), _DETAIL_INDENT)
    if verdict.rerun:
        print_unbroken(console, "rerun", pen.text(verdict.rerun), _DETAIL_INDENT)


def _row(same: Same, arm: ArmRepeats, pen: Pen) -> _Row:
    verdict = same.first
    last = [production_bound_of(verdict)]
    if arm.count > 1:
        last.append(f"{len(same.verdicts)}/{arm.count} {'repeats' if arm.diverges else 'equal'}")
    last.append(pen.text(ended_by_of(verdict)))
    return _Row(
        verdict.status,
        pen.name(verdict.arm),
        outcome_of(verdict),
        _latencies(same),
        pen.text(culprits_of(verdict)),
        ", ".join(text for text in last if text),
    )


def _latencies(same: Same) -> str:
    """Return the latency against the bound; of repeats the least and the greatest."""
    known = same.latencies_s
    if len(known) < 2 or seconds(known[0]) == seconds(known[-1]):
        return latency_of(same.first)
    bound = f" of {seconds(same.first.bound_s)}" if same.first.bound_s is not None else ""
    return f"{seconds(known[0])} to {seconds(known[-1])}{bound}"


def _widths(rows: Iterable[_Row]) -> tuple[int, ...]:
    """Return the width of each column, with the gap to the next; 0 for one that is empty."""
    longest = [0, 0, 0, 0]
    for row in rows:
        longest = [
            max(n, min(Text(c).cell_len, _WIDEST_COLUMN)) for n, c in zip(longest, row.columns, strict=True)
        ]
    return tuple(n + 2 if n else 0 for n in longest)


def _padded(cell: str, width: int) -> str:
    return cell + " " * max(width - Text(cell).cell_len, 2 if width else 0)


def _print_footer(judged: Judged, console: Console, pen: Pen) -> None:
    console.print()
    counts = Counter(r.result for r in judged.scenarios)
    said = [Text(f"{counts[r]} {words(r)}", style=STYLE[r]) for r in Result if counts[r]]
    total = f"{plural(len(judged.scenarios), 'scenario')}, {plural(len(judged.verdicts), 'arm')}"
    total += f" in {seconds(judged.wall_s)}" if judged.wall_s > 0 else ""
    print_wrapped(console, Text(f"{total}: ").append_text(Text(", ").join(said)), 0, 2)
    for result in (Result.NOT_HELD, Result.INCONCLUSIVE):
        names = [pen.name(r.name) for r in judged.scenarios if r.result is result]
        if names:
            print_wrapped(console, Text(f"{words(result)}: {', '.join(names)}", style=STYLE[result]), 0, 2)
    for line in _notes(judged.verdicts):
        print_wrapped(console, Text(pen.text(line), style="dim"), 0, 2)
    if judged.interrupted:
        print_wrapped(console, Text("interrupted: what was not finished is not judged", style="yellow"), 0, 2)
    print_wrapped(console, Text(pen.text(origin_of(judged.seed, judged.torch))), 0, 2)
    print_unbroken(console, "run directory", pen.text(str(judged.run_dir)), 0)


def _notes(verdicts: tuple[Verdict, ...]) -> Iterator[str]:
    if any(production_bound_of(v) for v in verdicts):
        yield "in production: the bound with the profile's unshortened durations; extrapolated, not measured"
    without: dict[str, dict[str, None]] = {}
    for v in verdicts:
        without.setdefault(v.profile, {}).update(dict.fromkeys(v.not_applicable))
    for profile, names in without.items():
        if names:
            yield f"not applicable here: {', '.join(names)} (profile {profile})"
