"""When a fault fires: counts what the script does, and says which injections are due.

May not fire anything itself: :mod:`chaoskit.rank.tap` does, and this module calls it back where a moment is
none of a collective (a function call, a point in time).
"""

from __future__ import annotations

import functools
import importlib
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

from chaoskit.faults import RankFault
from chaoskit.model import Injection, Phase

_MAIN_THREAD_SIGNAL: Final = signal.SIGRTMIN + 8
"""Carries the trigger ``after`` to the main thread (the next one below is the progress watchdog's)."""


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


def wrap_call(shot: Shot, fire: Callable[[Shot], None]) -> None:
    """Replace the function that the trigger names by one that fires before or after its nth call.

    The name is looked up now: references that the script already has (``from x import f``) stay as they
    are. Raises ImportError or AttributeError where there is no such function.
    """
    owner, name = _resolve(shot.when.call)
    original = getattr(owner, name)

    @functools.wraps(original)
    def counted(*args: Any, **kwargs: Any) -> Any:
        due = shot.due()
        if due and shot.when.phase is not Phase.AFTER:
            fire(shot)
        result = original(*args, **kwargs)
        if due and shot.when.phase is Phase.AFTER:
            fire(shot)
        return result

    setattr(owner, name, counted)


def _resolve(dotted: str) -> tuple[Any, str]:
    *path, name = dotted.split(".")
    for end in range(len(path), 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(path[:end]))
        except ModuleNotFoundError:
            continue
        for part in path[end:]:
            owner = getattr(owner, part)
        getattr(owner, name)
        return owner, name
    raise ModuleNotFoundError(f"no module in {dotted!r} can be imported")


def start_timer(shot: Shot, fire: Callable[[Shot], None]) -> None:
    """Fire ``after_s`` from now. Main thread only.

    A fault that has the same effect on any thread fires in the timer's, so also while the main thread sits in
    a collective. Others (an exception, a stall) reach the main thread by a signal, and Python runs them
    there once the call into native code that it is in has ended.
    """
    main = threading.get_ident()
    if not shot.fault.any_thread:
        signal.signal(_MAIN_THREAD_SIGNAL, lambda *_: fire(shot))

    def ring() -> None:
        if shot.fault.any_thread:
            fire(shot)
        else:
            signal.pthread_kill(main, _MAIN_THREAD_SIGNAL)

    timer = threading.Timer(shot.when.after_s, ring)
    timer.daemon = True
    timer.start()
