"""What a fault needs to have set up outside the ranks, such as a memory cgroup, and removed afterwards.

A fault that has ``prepare(arm_id, plan)`` gets it called in the warden, in the network of the arm (with
virtual hosts: in that of its first rank's host), before any rank is started, so whatever it sets in its own
module or in ``os.environ`` is there in the ranks. It returns what to call once all processes of the arm are
gone; where that object also has ``oom_kills()``, the kernel's SIGKILL of a rank can be told from others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from chaoskit.model import Plan


@runtime_checkable
class Preparing(Protocol):
    """A fault with something to set up. ``arm_id`` is unique on this machine while the arm runs."""

    def prepare(self, arm_id: str, plan: Plan) -> Callable[[], None]: ...


@runtime_checkable
class CountsOomKills(Protocol):
    """What ``prepare`` returned, where it knows how many processes the kernel ended for want of memory."""

    def __call__(self) -> None: ...
    def oom_kills(self) -> int: ...


class ArmResources:
    """All that the faults of one plan have set up."""

    def __init__(self) -> None:
        self._cleanups: list[Callable[[], None]] = []
        self._counters: list[CountsOomKills] = []
        self._oom_kills_seen = 0

    def prepare(
        self, plan: Plan | None, arm_id: str, network_of: Callable[[int], AbstractContextManager[None]]
    ) -> None:
        """Set up what the plan's faults need, each in the network of its first rank. What was set up before
        an error is still cleaned up later."""
        if plan is None:
            return
        for injection in plan.injections:
            if not isinstance(injection.fault, Preparing):
                continue
            targets = getattr(injection.fault, "rank", ())
            with network_of(0 if targets == "all" else min(targets, default=0)):
                prepared: object = injection.fault.prepare(arm_id, plan)
            if isinstance(prepared, CountsOomKills):
                self._counters.append(prepared)
            if callable(prepared):
                self._cleanups.append(prepared)

    def explains_a_kill(self) -> bool:
        """Return whether the kernel counted an out-of-memory kill that was not asked for before."""
        counted = sum(counter.oom_kills() for counter in self._counters)
        if counted <= self._oom_kills_seen:
            return False
        self._oom_kills_seen += 1
        return True

    def clean_up(self) -> None:
        """Undo all, the last first. An error in one does not stop the others and is raised at the end."""
        failed: Exception | None = None
        while self._cleanups:
            try:
                self._cleanups.pop()()
            except Exception as error:  # noqa: BLE001 - plug-in code, all must get their turn
                failed = error
        if failed is not None:
            raise failed
