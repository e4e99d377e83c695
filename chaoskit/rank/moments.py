"""Looks out for the moments of a script that are none of a collective, a step or the forming of a group.

One module for each kind of moment: calls of functions, of modules (forward, backward), batches of loaders,
writes of files, points in time. It may not fire anything itself: it calls back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from chaoskit.history import BATCHES
from chaoskit.model import Trigger
from chaoskit.rank import batches, calls, module_calls, writes
from chaoskit.rank.triggers import Fire, MainThread, Shot, start_timer

_ANY_THREAD: Final = frozenset({"after", "write"})


class Moments:
    """The moments that the ``shots`` of this rank wait for. Built in the main thread, before the script."""

    def __init__(self, shots: Iterable[Shot], fire: Fire) -> None:
        self._shots = tuple(shots)
        by_kind: dict[str, list[Shot]] = {}
        for shot in self._shots:
            by_kind.setdefault(shot.when.kind, []).append(shot)
        self._batches = batches.count_batches(by_kind.get("loader", ()), fire)
        if called := by_kind.get("call"):
            calls.watch(called, fire)
        if modules := by_kind.get("forward", []) + by_kind.get("backward", []):
            module_calls.watch(modules, fire)
        if _ANY_THREAD & by_kind.keys():
            main = MainThread(fire)
            for shot in by_kind.get("after", ()):
                start_timer(shot, main)
            if written := by_kind.get("write"):
                writes.watch(written, main)

    def reached(self) -> list[tuple[str, int]]:
        """Return how often the script came to each of the moments, and to a batch of a loader."""
        found = {BATCHES: self._batches.count} if self._batches.count else {}
        for shot in self._shots:
            what = described(shot.when)
            if what:
                found[what] = max(found.get(what, 0), shot.count)
        return list(found.items())


def described(when: Trigger) -> str:
    """Return the moment without its number; empty for a kind that is told by other events."""
    match when.kind:
        case "call":
            return f"call of {when.call}"
        case "forward" | "backward":
            return f"{when.kind} of {when.module}"
        case "loader":
            return BATCHES
        case "write":
            return f"write of {when.path}"
        case _:
            return ""
