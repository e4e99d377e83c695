"""The ordered events of one arm, from every source, and nothing else.

Events are appended, never changed; what they are is in :mod:`chaoskit.events`. This module may not run or
judge anything.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

from chaoskit.errors import Problem
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

EVENT_TYPES: dict[str, type[Event]] = {c.__name__: c for c in Event.__subclasses__()}


@dataclass(frozen=True, slots=True)
class History:
    """The events of one arm in order of time."""

    events: tuple[Event, ...] = ()

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """Order ``events`` by time (stable)."""
        return cls(tuple(sorted(events, key=lambda e: e.t_s)))

    def blind(self) -> History:
        """Return what blame may see: no injections and no holds of chaoskit's own."""
        return History(tuple(e for e in self.events if not isinstance(e, (Injected, Held))))

    def all(self, kind: type[E]) -> list[E]:
        """Return the events of ``kind`` in order."""
        return [e for e in self.events if isinstance(e, kind)]

    def first(self, kind: type[E], slot: int | None = None) -> E | None:
        return next((e for e in self.all(kind) if slot is None or e.slot == slot), None)

    @property
    def slots(self) -> tuple[int, ...]:
        """The processes that were started, in order."""
        return tuple(sorted({e.slot for e in self.all(Started)}))


def to_line(event: Event) -> str:
    """Return ``event`` as one line of JSON, its kind first."""
    fields = {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}
    return json.dumps({"kind": type(event).__name__, **fields}, separators=(",", ":"))


def from_line(line: str) -> Event:
    """Return the event of one line. Raises ValueError with what is wrong with it."""
    raw = json.loads(line)
    if not isinstance(raw, dict) or raw.get("kind") not in EVENT_TYPES:
        raise ValueError("not an event of a chaoskit history")
    kind = EVENT_TYPES[raw.pop("kind")]
    names = {f.name for f in dataclasses.fields(kind)}
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items() if k in names}
    make: Callable[..., Event] = kind
    try:
        event = make(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from None
    checks = _checks(kind)  # type: ignore[arg-type] # mypy thinks a class with frozen instances unhashable
    if wrong := [name for name, fits in checks if not fits(getattr(event, name))]:
        raise ValueError(f"{kind.__name__}: {', '.join(wrong)} cannot be {getattr(event, wrong[0])!r:.60}")
    return event


Check = Callable[[object], bool]


@functools.cache
def _checks(kind: type[Event]) -> tuple[tuple[str, Check], ...]:
    """The name of each field and what tells whether a value is of its type."""
    return tuple((n, _finite if n == "t_s" else _check(hint)) for n, hint in get_type_hints(kind).items())


def _finite(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _check(hint: object) -> Check:
    if get_origin(hint) is Literal:
        return lambda value: value in get_args(hint)
    if get_origin(hint) is tuple:
        inner = _check(get_args(hint)[0])
        return lambda value: isinstance(value, tuple) and all(map(inner, value))
    if hint is float:
        return lambda value: type(value) in (int, float)
    return lambda value: type(value) is hint


def write(path: Path, events: Iterable[Event]) -> None:
    """Append ``events`` to the file."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(to_line(e) + "\n" for e in events)


def read(path: Path) -> tuple[History, list[Problem]]:
    """Return the history in ``path`` and a problem for each line that is not an event.

    A truncated last line (chaoskit was killed) is such a problem; the rest is still read.
    """
    events: list[Event] = []
    problems: list[Problem] = []
    for number, line in enumerate(_lines(path), 1):
        try:
            events.append(from_line(line))
        except (ValueError, RecursionError) as error:
            problems.append(Problem(f"unreadable event: {error}", str(path), number))
    return History.of(events), problems


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from (line for line in file if line.strip())
