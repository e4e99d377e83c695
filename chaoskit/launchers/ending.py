"""How a warden ends everything below it, and what it calls a leftover."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Final

from chaoskit.history import Leftover
from chaoskit.launchers import kernel, sweep

_LOOK_AGAIN_S: Final = 0.05  # between walks of the whole tree


class Killer:
    """Kills all that this process has below it, again and again; the caller reaps meanwhile."""

    def __init__(self) -> None:
        self._killed: set[int] = set()  # children that got our SIGKILL and are not yet reaped
        self.walk_at = 0.0
        """When the whole tree is next looked at (CLOCK_MONOTONIC)."""

    def kill(self) -> None:
        """Kill each new child once, which is cheap, and now and then all that is below."""
        me = os.getpid()
        for pid in kernel.children(me):
            if pid not in self._killed:
                self._killed.add(pid)
                sweep.kill(pid)
        if time.monotonic() >= self.walk_at:
            for pid in sweep.descendants(me):
                sweep.kill(pid)
            self.walk_at = time.monotonic() + _LOOK_AGAIN_S

    def reaped(self, pid: int) -> None:
        """A number that is free again may be given to another child."""
        self._killed.discard(pid)


class Leftovers:
    """What is there when the last rank has ended gets ``grace_s``, and is then a leftover."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._told = False
        self.at: float | None = None
        """When that is (CLOCK_MONOTONIC); None before the last rank has ended, and afterwards."""

    def are_due(self, ending: bool) -> bool:
        """Ask with no rank alive. Return whether they are to be told and ended now: once, and where all is
        being ended already only if the grace had begun before."""
        if self._told or (ending and self.at is None):
            return False
        now = time.monotonic()
        if self.at is None:
            self.at = now + self._grace_s
        if now < self.at and not ending:
            return False
        self._told, self.at = True, None
        return True

    def find(self) -> Iterator[Leftover]:
        """Yield each process below this one."""
        now = time.monotonic()
        for pid in sweep.descendants(os.getpid()):
            if kernel.state(pid) not in ("", "Z", "X"):
                yield Leftover(now, -1, pid, kernel.command(pid))
