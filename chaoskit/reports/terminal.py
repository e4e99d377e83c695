"""The summary on the terminal: each scenario's result, each arm's facts, and how to look closer.

Columns where there is room, one fact after the other where there is not. What is not held,
inconclusive or skipped always says why and how to run it again. One scenario alone is told in full,
and in no more than :data:`LINES_MAX` lines where that is possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from chaoskit.model import Result, ScenarioResult, Status, Verdict
from chaoskit.reports.blamed_lines import Room, blamed, cut
from chaoskit.reports.console import STYLE, Line, Pen, fact, print_lines, unbroken, wrapped
from chaoskit.reports.judged import Judged
from chaoskit.reports.repeats import ArmRepeats, Same, by_arm
from chaoskit.reports.wording import (
    closer_look,
    culprits_of,
    ended_by_of,
    latency_of,
    origin_of,
    outcome_of,
    plural,
    production_bound_of,
    reason_of,
    seconds,
    words,
)

LINES_MAX = 15
"""Lines for one scenario alone, on 120 columns."""
NARROW = 72
"""Below this many columns an arm is written as one fact after the other."""
_INDENT = 4
_DETAIL_INDENT = 8
_WIDEST_COLUMN = 24
_DAMAGE_LINES = 4
"""Of what keeps an arm from being judged, at least: it is all there is to say of it."""
_ROOMS = (
    Room(evidence=3, lines=2, remarks=True),
    Room(evidence=2, lines=2, remarks=True),
    Room(evidence=2, lines=2, remarks=False),
    Room(evidence=2, lines=1, remarks=False),
    Room(evidence=1, lines=1, remarks=False),
)
"""What one scenario alone is given, the most first: the first that fits is taken, else the last."""


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
    """Print what there is to say of ``judged``."""
    if len(judged.scenarios) != 1:
        print_lines(console, _Summary(judged, console, Room()).lines())
        return
    for room in _ROOMS:
        lines = _Summary(judged, console, room).lines()
        if len(lines) <= LINES_MAX:
            break
    print_lines(console, lines)


class _Summary:
    """Writes one summary, with so much room for what explains the verdicts."""

    def __init__(self, judged: Judged, console: Console, room: Room) -> None:
        self._judged = judged
        self._console = console
        self._room = room
        self._alone = len(judged.scenarios) == 1
        self._pen = Pen(console)
        self._told: dict[str, str] = {}
        """Which scenario has given a reason that all its arms share."""

    def lines(self) -> list[Line]:
        arms = [by_arm(r.verdicts) for r in self._judged.scenarios]
        widths = _widths(_row(g, a, self._pen) for repeats in arms for a in repeats for g in a.groups)
        lines: list[Line] = []
        for result, repeats in zip(self._judged.scenarios, arms, strict=True):
            common = _common_reason(result)
            lines += self._heading(result, common)
            lines += self._arms(result, repeats, common, widths)
        return [*lines, *self._footer()]

    def _heading(self, result: ScenarioResult, common: str) -> Iterator[Line]:
        """The result and why."""
        pen, style = self._pen, STYLE[result.result]
        heading = Text.assemble(
            (f"{pen.mark(result.result)} ", style),
            (pen.name(result.name), "bold"),
            (f"  {words(result.result)}", style),
            (f"  [{result.backend}]", "dim"),
        )
        yield from wrapped(self._console, heading, 0, _INDENT)
        news = common or _news(result, with_arm=not self._alone)
        if result.result is not Result.HELD and news:
            first = self._told.setdefault(common, result.name) if common else result.name
            reason = pen.text(news) if first == result.name else f"the same as of {pen.name(first)}"
            yield from self._fact("reason", reason, _INDENT)

    def _arms(
        self, result: ScenarioResult, arms: tuple[ArmRepeats, ...], common: str, widths: tuple[int, ...]
    ) -> Iterator[Line]:
        shared = _shared_notes(result)
        for note in shared:
            yield from self._fact("note", self._pen.text(note), _INDENT)
        explained = _explained(result, arms) if self._alone else None
        for arm in arms:
            for same in arm.groups:
                yield from self._arm(same, arm, widths)
                yield from self._details(same, arm, common, explained)
            yield from self._notes(arm, shared)
            for attempt in arm.superseded:
                said = f"{outcome_of(attempt)}, {words(attempt.status)}: {attempt.reason}"
                yield from self._fact(
                    f"attempt {attempt.attempt} before", self._pen.text(said), _DETAIL_INDENT
                )

    def _notes(self, arm: ArmRepeats, shared: tuple[str, ...]) -> Iterator[Line]:
        verdicts = [v for group in arm.groups for v in group.verdicts]
        if names := list(dict.fromkeys(str(c) for v in verdicts for c in v.stragglers)):
            yield from self._fact("the others waited for", self._pen.text(", ".join(names)), _DETAIL_INDENT)
        for note in dict.fromkeys(n for v in verdicts for n in v.notes if n not in shared):
            yield from self._fact("note", self._pen.text(note), _DETAIL_INDENT)

    def _arm(self, same: Same, arm: ArmRepeats, widths: tuple[int, ...]) -> list[Line]:
        row = _row(same, arm, self._pen)
        style = STYLE[row.status]
        mark = Text(f"{self._pen.mark(row.status)} ", style=style)
        if self._console.width < NARROW:
            said = ", ".join(p for p in (row.outcome, row.latency, row.culprit, row.last) if p)
            text = Text.assemble(mark, f"{row.arm}: ", (said, style))
            return wrapped(self._console, text, _INDENT, _DETAIL_INDENT)
        cells = [_padded(c, w) for c, w in zip(row.columns, widths, strict=True)]
        line = Text.assemble(mark, cells[0], (cells[1], style), *cells[2:], row.last)
        line.rstrip()
        return wrapped(self._console, line, _INDENT, _DETAIL_INDENT)

    def _details(self, same: Same, arm: ArmRepeats, common: str, explained: Same | None) -> Iterator[Line]:
        """Why it is so: of an arm that is not as it should be, and of one that is looked at alone."""
        verdict, passed = same.first, same.first.status is Status.PASS
        if arm.diverges:
            numbers = ", ".join(str(v.repeat) for v in same.verdicts)
            yield from self._fact("repeats", numbers, _DETAIL_INDENT)
        with_cause = same is explained or (explained is None and not passed)
        if not passed and not common:
            reason = reason_of(verdict) if with_cause else verdict.reason
            said = self._pen.text(reason or "no reason was given")
            lines = _DAMAGE_LINES if verdict.status is Status.INCONCLUSIVE else 0
            yield from self._fact(words(verdict.status), said, _DETAIL_INDENT, lines)
        if with_cause:
            yield from blamed(verdict, self._room, self._console, self._pen, _DETAIL_INDENT)
        if verdict.rerun and (not passed or same is explained):
            yield from unbroken("rerun", self._pen.text(verdict.rerun), _DETAIL_INDENT)

    def _footer(self) -> Iterator[Line]:
        judged, console, pen = self._judged, self._console, self._pen
        yield Line(Text())
        counts = Counter(r.result for r in judged.scenarios)
        said = [Text(f"{counts[r]} {words(r)}", style=STYLE[r]) for r in Result if counts[r]]
        total = f"{plural(len(judged.scenarios), 'scenario')}, {plural(len(judged.verdicts), 'arm')}"
        total += f" in {seconds(judged.wall_s)}" if judged.wall_s > 0 else ""
        line = Text(f"{total}: ").append_text(Text(", ").join(said))
        origin = Text(pen.text(origin_of(judged.seed, judged.torch)))
        yield from wrapped(console, Text.assemble(line, "; ", origin) if self._alone else line, 0, 2)
        for result in () if self._alone else (Result.NOT_HELD, Result.INCONCLUSIVE):
            names = [pen.name(r.name) for r in judged.scenarios if r.result is result]
            if names:
                text = Text(f"{words(result)}: {', '.join(names)}", style=STYLE[result])
                yield from wrapped(console, text, 0, 2)
        for remark in _remarks(judged.verdicts, without=self._room.remarks):
            yield from wrapped(console, Text(pen.text(remark), style="dim"), 0, 2)
        if judged.interrupted:
            text = Text("interrupted: what was not finished is not judged", style="yellow")
            yield from wrapped(console, text, 0, 2)
        if not self._alone:
            yield from wrapped(console, origin, 0, 2)
        yield from unbroken("run directory", pen.text(str(judged.run_dir)), 0)
        yield from unbroken("report", pen.text(closer_look(str(judged.run_dir))), 0)

    def _fact(self, key: str, value: str, indent: int, least: int = 0) -> list[Line]:
        lines = self._room.lines and max(self._room.lines, least)
        return cut(fact(self._console, key, value, indent), lines, self._console, self._pen)


def _common_reason(result: ScenarioResult) -> str:
    """Return the reason that all arms share (a program that cannot be used): it is said once."""
    reasons = {"" if v.status is Status.PASS else v.reason for v in result.verdicts}
    return reasons.pop() if len(reasons) == 1 and len(result.verdicts) > 1 else ""


def _explained(result: ScenarioResult, arms: tuple[ArmRepeats, ...]) -> Same | None:
    """Return what explains the result: an arm that fails, one that is not as it should be, a hardened one."""
    groups = [group for arm in arms for group in arm.groups]
    hardened = [g for g in groups if g.first.arm != "control"]
    choices = (
        [g for g in hardened if g.first.status is Status.FAIL],
        [g for g in groups if g.first.status is not Status.PASS],
        hardened,
        groups,
    )
    return next((choice[0] for choice in choices if choice), None)


def _shared_notes(result: ScenarioResult) -> tuple[str, ...]:
    """Return what is noted of every arm: said once, above them."""
    first, *others = result.verdicts or (None,)
    if first is None:
        return ()
    return tuple(n for n in dict.fromkeys(first.notes) if all(n in v.notes for v in others))


def _news(result: ScenarioResult, *, with_arm: bool) -> str:
    """Return the scenario's reason without the part that is printed with an arm anyway.

    ``with_arm``: what is left may name the arm and no more; else that is no news.
    """
    reason = result.reason
    for verdict in result.verdicts:
        if verdict.status is not Status.PASS and verdict.reason:
            reason = reason.removesuffix(verdict.reason)
    reason = reason.rstrip(": ")
    named = {said for v in result.verdicts for said in (v.arm, f"{v.arm} ({v.profile})")}
    return reason if with_arm or reason not in named else ""


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


def _remarks(verdicts: tuple[Verdict, ...], *, without: bool) -> Iterator[str]:
    """Yield what explains words above; ``without``: also which settings had no effect."""
    if any(production_bound_of(v) for v in verdicts):
        yield "in production: the bound with the profile's unshortened durations; extrapolated, not measured"
    left: dict[str, dict[str, None]] = {}
    for v in verdicts if without else ():
        left.setdefault(v.profile, {}).update(dict.fromkeys(v.not_applicable))
    for profile, names in left.items():
        if names:
            yield f"not applicable here: {', '.join(names)} (profile {profile})"
