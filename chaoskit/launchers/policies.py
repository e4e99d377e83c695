"""What the launcher itself does about a job, as a guard of the profile says (see chaoskit.guards.group_kill).

A guard that lives in the launcher has a ``policy``; the warden feeds it and carries out what it says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
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
    @property
    def fence(self) -> bool:
        """Also end what is on hosts that do not answer, as a cluster does that takes a node away."""


class LauncherPolicy(Protocol):
    """Pure: told of what happens at CLOCK_MONOTONIC seconds ``t``; says what is due and when to ask again."""

    def on_end(self, slot: int, exit_code: int, work_done: bool, t: float) -> None: ...
    def on_stop(self, slot: int, t: float) -> None: ...
    def on_continue(self, slot: int, t: float) -> None: ...
    def due(self, t: float) -> Sequence[Kill]: ...
    def next_due(self) -> float | None: ...


@runtime_checkable
class WatchesStore(Protocol):
    """A policy that wants to know what becomes of the store that is no rank's. Of a store on a host that does
    not answer it is told too, after that host: it is for the policy not to know it at once."""

    def on_store_end(self, exit_code: int, t: float) -> None: ...
    def on_store_stop(self, t: float) -> None: ...
    def on_store_continue(self, t: float) -> None: ...


@runtime_checkable
class WatchesHosts(Protocol):
    """A policy that wants to know when a host does not answer any more (crashed, frozen), with its ranks, and
    when it does again: thawed, or rebooted. What became of its ranks meanwhile is told after that."""

    def on_host_lost(self, host: str, slots: Sequence[int], t: float) -> None: ...
    def on_host_back(self, host: str, t: float) -> None: ...


@runtime_checkable
class LauncherGuard(Protocol):
    """A guard that brings a policy for a job of ``ranks`` processes."""

    def policy(self, ranks: int) -> LauncherPolicy: ...


@dataclass(frozen=True, slots=True)
class Armed:
    """A policy with the name of its guard."""

    guard: str
    policy: LauncherPolicy


class Policies:
    """The policies of one arm: each is told what it wants to know, and asked what is due."""

    def __init__(self, armed: Sequence[Armed] = ()) -> None:
        self._armed = tuple(armed)
        all_ = [one.policy for one in self._armed]
        self.of_ranks: tuple[LauncherPolicy, ...] = tuple(all_)
        self.of_store: tuple[WatchesStore, ...] = tuple(p for p in all_ if isinstance(p, WatchesStore))
        self.of_hosts: tuple[WatchesHosts, ...] = tuple(p for p in all_ if isinstance(p, WatchesHosts))

    def due(self) -> Iterator[tuple[str, Kill]]:
        """Yield what is to be sent now, with the guard that says so."""
        for armed in self._armed:
            for kill in armed.policy.due(time.monotonic()):
                yield armed.guard, kill

    def next_due(self) -> float | None:
        """Return when to ask again even if nothing happens (CLOCK_MONOTONIC)."""
        times = (armed.policy.next_due() for armed in self._armed)
        return min((t for t in times if t is not None), default=None)


def of(plan: Plan | None) -> Policies:
    """Return fresh policies of the launcher's guards in the plan's profile."""
    guards = plan.profile.guards if plan else ()
    armed: list[Armed] = []
    for guard in guards:
        if guard.lives_in != "launcher":
            continue
        if not isinstance(guard, LauncherGuard):
            raise BrokenPlugin(f"guard {guard.name} lives in the launcher but has no policy()")
        armed.append(Armed(guard.name, guard.policy(len(plan.ranks) if plan else 0)))
    return Policies(armed)
