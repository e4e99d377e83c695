"""What a trace shows as an instant: faults, guards, signals, ends, deadlines. Pure."""

from __future__ import annotations

import dataclasses
import signal

from chaoskit.history import (
    ArmEnded,
    ArmStarted,
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
    LauncherStarted,
    Leftover,
    LinkChanged,
    Malfunction,
    OpFailed,
    PathTested,
    PhaseDeclared,
    Raised,
    Reaped,
    Signalled,
    Started,
    Stopped,
)
from chaoskit.reports.wording import end_of

Value = str | int | float | bool


def name_of(event: Event) -> str:
    """Return what happened, in a few words; '' for what a trace does not show."""
    match event:
        case Injected():
            return f"fault: {event.fault}"
        case Held():
            return "let go by chaoskit" if event.released else "held back by chaoskit"
        case GuardFired():
            return f"guard {event.guard} ends the rank"
        case GuardNoticed():
            return f"guard {event.guard} noticed"
        case Raised():
            return f"raised {event.type}"
        case OpFailed():
            return f"{event.op} #{event.nth} failed"
        case Signalled():
            return f"{end_of(-event.signal)} from {event.guard}"
        case Ended():
            return f"ended: {end_of(event.exit_code)}"
        case Stopped():
            return f"stopped ({signal.SIGSTOP.name})" if event.stopped else "goes on"
        case DeadlineReached():
            return "deadline: all are ended" if event.final else "deadline, extended"
        case LinkChanged():
            return f"link of {event.host} {event.nic} {'up' if event.up else 'down'}"
        case PathTested():
            return f"path {event.host} to {event.to} over {event.nic}: {event.state}"
        case PhaseDeclared():
            return f"declared phase {event.name}"
        case _:
            return _PLAIN.get(type(event), "")


_PLAIN: dict[type[Event], str] = {
    ArmStarted: "the arm starts",
    ArmEnded: "the arm has ended",
    Started: "started",
    Finished: "work done",
    Interrupted: "interrupted",
    Malfunction: "chaoskit's own fault",
    Leftover: "left over, killed",
    LauncherStarted: "launcher started",
    LauncherEnded: "launcher ended",
    Reaped: "found ended",
}


def values_of(event: Event) -> dict[str, Value | list[str]]:
    """Return the fields of ``event`` beside its time and slot."""
    found: dict[str, Value | list[str]] = {}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if field.name not in ("t_s", "slot"):
            found[field.name] = [str(v) for v in value] if isinstance(value, tuple) else value
    return found
