"""The ordered events of one arm, from every source, and nothing else.

Events are appended, never changed; what they are is in :mod:`chaoskit.events`. This module may not run or
judge anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from chaoskit import recorded
from chaoskit.errors import Problem
from chaoskit.event_lines import EVENT_TYPES, from_line, to_line
from chaoskit.events import (
    BATCHES,
    OWN_RANKS,
    ArmEnded,
    ArmStarted,
    Clock,
    Completed,
    DeadlineReached,
    Ended,
    Entered,
    ErrorCategory,
    Event,
    Finished,
    GuardArmed,
    GuardFired,
    GuardNoticed,
    Held,
    Identity,
    Injected,
    Interrupted,
    LauncherEnded,
    LauncherStarted,
    LeftOut,
    Leftover,
    LinkChanged,
    Lost,
    Malfunction,
    OpFailed,
    ParameterSum,
    PathState,
    PathTested,
    PhaseDeclared,
    Raised,
    Reached,
    Reaped,
    Replicated,
    Reported,
    RunDelay,
    Sampled,
    Signalled,
    Started,
    Stepped,
    Stopped,
)

E = TypeVar("E", bound=Event)

__all__ = [
    "BATCHES",
    "EVENT_TYPES",
    "OWN_RANKS",
    "ArmEnded",
    "ArmStarted",
    "Clock",
    "Completed",
    "DeadlineReached",
    "Ended",
    "Entered",
    "ErrorCategory",
    "Event",
    "Finished",
    "GuardArmed",
    "GuardFired",
    "GuardNoticed",
    "Held",
    "History",
    "Identity",
    "Injected",
    "Interrupted",
    "LauncherEnded",
    "LauncherStarted",
    "LeftOut",
    "Leftover",
    "LinkChanged",
    "Lost",
    "Malfunction",
    "OpFailed",
    "ParameterSum",
    "PathState",
    "PathTested",
    "PhaseDeclared",
    "Raised",
    "Reached",
    "Reaped",
    "Replicated",
    "Reported",
    "RunDelay",
    "Sampled",
    "Signalled",
    "Started",
    "Stepped",
    "Stopped",
    "from_line",
    "read",
    "to_line",
    "write",
]


@dataclass(frozen=True, slots=True)
class History:
    """The events of one arm in order of time."""

    events: tuple[Event, ...] = ()
    _kinds: dict[type[Event], list[Event]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )  # the events of each kind, once somebody asked

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """Order ``events`` by time (stable)."""
        return cls(tuple(sorted(events, key=lambda e: e.t_s)))

    def blind(self) -> History:
        """Return what blame may see: no injections and no holds of chaoskit's own."""
        return History(tuple(e for e in self.events if not isinstance(e, (Injected, Held))))

    def all(self, kind: type[E]) -> list[E]:
        """Return the events of ``kind`` in order."""
        if not self._kinds:
            for event in self.events:
                self._kinds.setdefault(type(event), []).append(event)
        if kind in self._kinds:
            return list(self._kinds[kind])  # type: ignore[arg-type]
        return [e for e in self.events if isinstance(e, kind)] if kind is Event else []

    def first(self, kind: type[E], slot: int | None = None) -> E | None:
        return next((e for e in self.all(kind) if slot is None or e.slot == slot), None)

    @property
    def slots(self) -> tuple[int, ...]:
        """The processes that were started, in order."""
        return tuple(sorted({e.slot for e in self.all(Started)}))


def write(path: Path, events: Iterable[Event]) -> None:
    """Append ``events`` to the file."""
    recorded.append_events(path, events)


def read(path: Path) -> tuple[History, list[Problem]]:
    """Return the history in ``path`` and a problem for each line that says nothing a history knows.

    A truncated last line (chaoskit was killed) is such a problem; the rest is still read.
    """
    events, problems = recorded.read_events(path)
    return History(tuple(events)), problems
