"""When a fault fires: counts what the script does, and says which injections are due.

May not fire anything itself: :mod:`chaoskit.rank.tap` does. Moments that are none of a collective are looked
out for by :mod:`chaoskit.rank.moments`, which calls it back.
"""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from chaoskit.faults import RankFault
from chaoskit.model import Injection, Phase

_MAIN_THREAD_SIGNAL: Final = signal.SIGRTMIN + 8
"""Carries what is due to the main thread (the next one below is the progress watchdog's)."""


class Shot:
    """One injection of the plan as this rank sees it; counts its own matches."""

    __slots__ = ("_count", "_lock", "_step", "bit", "fault", "fired", "holds", "index", "when")

    def __init__(self, index: int, injection: Injection, fault: RankFault, holds: bool) -> None:
        self.index = index
        self.bit = index % 64
        self.fault = fault
        self.when = injection.when
        self.holds = holds  # not a target: may have to wait for one
        self.fired = False
        self._count = 0
        self._step = 0
        self._lock = threading.Lock()

    def due(self, group: str = "", step: int = 0) -> bool:
        """Count one occurrence and return whether it is the one (or, for a lasting fault, a later one).

        ``step`` is the step that is under way, from 1.
        """
        when = self.when
        if when.kind == "collective":
            if group != when.group:
                return False
            if when.step and step != when.step:
                return False
        with self._lock:
            self._count += 1
            return self._count >= when.nth if self.fault.repeats else self._count == when.nth

    @property
    def count(self) -> int:
        """How often its moment has come, whether it was the one or not."""
        return self._count

    def uncount(self) -> None:
        """Take the last one back: it turned out to be none."""
        with self._lock:
            self._count -= 1


Fire = Callable[[Shot], None]
"""Makes a shot happen, and records that it does."""


def shots_of(injections: tuple[Injection, ...], slot: int) -> list[Shot]:
    """Return what concerns process ``slot``: what it is a target of, and where it may have to wait."""
    shots = []
    for index, injection in enumerate(injections):
        fault, when = injection.fault, injection.when
        if not isinstance(fault, RankFault):
            continue
        if fault.targets(slot):
            shots.append(Shot(index, injection, fault, holds=False))
        elif when.kind == "collective" and when.phase is Phase.DURING:
            shots.append(Shot(index, injection, fault, holds=True))
    return shots


class MainThread:
    """Brings a shot that is due on another thread to the main one, where Python runs signal handlers.

    It fires there once the call into native code that the main thread is in has ended. Built in the main
    thread only.
    """

    def __init__(self, fire: Fire) -> None:
        self._fire = fire
        self._due: deque[Shot] = deque()
        self._main = threading.get_ident()
        signal.signal(_MAIN_THREAD_SIGNAL, self._rung)

    def fire(self, shot: Shot) -> None:
        """Fire here and now where the fault has the same effect on any thread, else in the main thread."""
        if shot.fault.any_thread or threading.get_ident() == self._main:
            self._fire(shot)
        else:
            self._due.append(shot)
            signal.pthread_kill(self._main, _MAIN_THREAD_SIGNAL)

    def _rung(self, *_: object) -> None:
        try:
            while self._due:
                self._fire(self._due.popleft())
        finally:
            if self._due:  # this one raises; the others are not forgotten for that
                signal.pthread_kill(self._main, _MAIN_THREAD_SIGNAL)


def start_timer(shot: Shot, main: MainThread) -> None:
    """Fire ``after_s`` from now, also while the main thread sits in a collective where the fault allows."""
    timer = threading.Timer(shot.when.after_s, main.fire, (shot,))
    timer.daemon = True
    timer.start()
