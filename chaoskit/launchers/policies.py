"""What the launcher itself does about a job, as a guard of the profile says (see chaoskit.guards.group_kill).

A guard that lives in the launcher has a ``policy``; the warden feeds it and carries out what it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from chaoskit.errors import BrokenPlugin
from chaoskit.model import Plan


class Kill(Protocol):
    """Send ``signal`` to the rank in ``slot``, or to all that are alive where it is None."""

    @property
    def slot(self) -> int | None: ...
    @property
    def signal(self) -> int: ...
    @property
    def reason(self) -> str: ...


class LauncherPolicy(Protocol):
    """Pure: told of what happens at CLOCK_MONOTONIC seconds ``t``; says what is due and when to ask again."""

    def on_end(self, slot: int, exit_code: int, work_done: bool, t: float) -> None: ...
    def on_stop(self, slot: int, t: float) -> None: ...
    def on_continue(self, slot: int, t: float) -> None: ...
    def due(self, t: float) -> Sequence[Kill]: ...
    def next_due(self) -> float | None: ...


@runtime_checkable
class LauncherGuard(Protocol):
    """A guard that brings a policy for a job of ``ranks`` processes."""

    def policy(self, ranks: int) -> LauncherPolicy: ...


@dataclass(frozen=True, slots=True)
class Armed:
    """A policy with the name of its guard."""

    guard: str
    policy: LauncherPolicy


def of(plan: Plan | None) -> tuple[Armed, ...]:
    """Return fresh policies of the launcher's guards in the plan's profile."""
    guards = plan.profile.guards if plan else ()
    armed: list[Armed] = []
    for guard in guards:
        if guard.lives_in != "launcher":
            continue
        if not isinstance(guard, LauncherGuard):
            raise BrokenPlugin(f"guard {guard.name} lives in the launcher but has no policy()")
        armed.append(Armed(guard.name, guard.policy(len(plan.ranks) if plan else 0)))
    return tuple(armed)
