"""What happened beside the operations, as marks on a timeline and as the course of events in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from chaoskit.events import (
    DeadlineReached,
    Ended,
    Event,
    Finished,
    GuardFired,
    GuardNoticed,
    Held,
    Injected,
    Interrupted,
    LauncherEnded,
    Leftover,
    LinkChanged,
    Lost,
    Malfunction,
    OpFailed,
    ParameterSum,
    PathTested,
    PhaseDeclared,
    Raised,
    Replicated,
    Signalled,
    Stopped,
)
from chaoskit.reports.wording import end_of, plural, ranks_of, seconds

MarkKind = Literal[
    "injected", "held", "error", "guard", "noticed", "signal", "stopped", "resumed", "exit", "finished",
    "diverged", "link", "other",
]  # fmt: skip


_BY_US = ", ended by chaoskit"


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that happened. ``slot`` -1: to the arm as a whole."""

    t_s: float
    slot: int
    kind: MarkKind
    text: str


@dataclass(frozen=True, slots=True)
class Moment:
    """The same thing on one rank or several, for the course of events."""

    from_s: float
    until_s: float
    who: str
    kind: MarkKind
    text: str


def find(events: Iterable[Event]) -> tuple[Mark, ...]:
    """Return the marks of ``events``, which are in order of time."""
    found: list[Mark] = []
    sums: dict[tuple[int, int, bool], int] = {}
    for event in events:
        if isinstance(event, Replicated):
            if not any(m.kind == "diverged" for m in found) and (mark := _differing(event, sums)):
                found.append(mark)
        elif (said := _said(event)) is not None:
            found.append(Mark(event.t_s, event.slot, *said))
    return tuple(found)


def _differing(event: Replicated, sums: dict[tuple[int, int, bool], int]) -> Mark | None:
    first = sums.setdefault((event.ordinal, event.step, event.final), event.checksum)
    if first == event.checksum:
        return None
    return Mark(event.t_s, event.slot, "diverged", f"replicated state differs after step {event.step}")


def _said(event: Event) -> tuple[MarkKind, str] | None:
    match event:
        case Injected():
            where = f" {event.phase} {event.op} #{event.nth}" if event.op else ""
            return "injected", f"the fault {event.fault} fires{where}"
        case Held(released=False):
            return "held", f"kept by chaoskit at the entry of {event.op} #{event.nth} until the fault fires"
        case OpFailed():
            return "error", f"{event.op} #{event.nth} failed: {event.message}"
        case Raised():
            category = "" if event.category == "own" else f" ({event.category.replace('_', ' ')})"
            at = f" at {event.site}" if event.site else ""
            return "error", f"{event.type}{category}: {event.message}{at}"
        case GuardFired():
            return "guard", f"guard {event.guard} ends it with {end_of(event.exit_code)}: {event.message}"
        case GuardNoticed():
            return "noticed", f"guard {event.guard} noticed: {event.message}"
        case Signalled():
            return "signal", f"{end_of(-abs(event.signal))} sent by {event.guard}: {event.reason}"
        case Stopped(stopped=True):
            return "stopped", "stopped: its process does not run"
        case Stopped():
            return "resumed", "goes on"
        case Ended():
            by = {"launcher": ", by the launcher", "supervisor": _BY_US}.get(event.by, "")
            memory = ", out of memory (kernel)" if event.oom_kill else ""
            return "exit", f"ends: {end_of(event.exit_code)}{by}{memory}"
        case Finished():
            return "finished", "its work is done"
    return _said_of_arm(event)


def _said_of_arm(event: Event) -> tuple[MarkKind, str] | None:
    match event:
        case PhaseDeclared(allowance_s=allowance_s) if allowance_s > 0:
            return "other", f"declares a phase {event.name} of up to {seconds(allowance_s)}"
        case PhaseDeclared():
            return "other", f"ends the phase {event.name}"
        case ParameterSum():
            return "diverged", f"the parameter {event.name} differs after step {event.step}"
        case LinkChanged():
            return "link", f"link of {event.host} {event.nic} goes {'up' if event.up else 'down'}"
        case PathTested():
            return "link", f"path {event.host} to {event.to} over {event.nic}: {event.state}"
        case DeadlineReached(final=True):
            return "other", "the deadline: the ranks that are left are looked at and ended"
        case DeadlineReached():
            return "other", f"at the deadline there still is progress: {seconds(event.extended_s)} more"
        case LauncherEnded():
            said = f", last said: {event.said}" if event.said else ""
            return "other", f"the launcher ends: {end_of(event.exit_code)}{said}"
        case Leftover():
            return "other", f"left behind and killed: {event.command or 'a process'} (pid {event.pid})"
        case Interrupted():
            return "other", "chaoskit was interrupted"
        case Malfunction():
            return "other", f"chaoskit's own fault: {event.message}"
        case Lost():
            return "other", f"{plural(event.count + event.torn, 'record')} lost: overwritten or torn"
    return None


def course(marks: Iterable[Mark], ranks: Mapping[int, int]) -> tuple[Moment, ...]:
    """Return ``marks`` in order, what came to several ranks in a row put together."""
    rows: list[list[Mark]] = []
    open_rows: dict[tuple[MarkKind, str], list[Mark]] = {}
    for mark in marks:
        key = mark.kind, mark.text
        if mark.slot < 0 or key not in open_rows:
            rows.append([])
            open_rows[key] = rows[-1]
        open_rows[key].append(mark)
    return tuple(_moment(row, ranks) for row in rows)


def _moment(row: list[Mark], ranks: Mapping[int, int]) -> Moment:
    slots = [m.slot for m in row if m.slot >= 0]
    who = ranks_of(ranks.get(slot, slot) for slot in slots) if slots else "job"
    again = f" ({len(slots)} times)" if len(slots) > len(set(slots)) else ""
    return Moment(row[0].t_s, row[-1].t_s, who, row[0].kind, row[0].text + again)


def first_error(marks: Iterable[Mark]) -> Mark | None:
    """Return the first thing by which a rank showed that something is wrong."""
    return next(_errors(marks), None)


def _errors(marks: Iterable[Mark]) -> Iterator[Mark]:
    for mark in marks:
        if mark.kind in ("error", "guard") or (mark.kind == "exit" and not _ends_well(mark)):
            yield mark


def _ends_well(mark: Mark) -> bool:
    return mark.text == "ends: exit 0" or mark.text.endswith(_BY_US)
