"""Ends a rank that stands still, with the stacks of all its threads, even while it holds the GIL.

What progress_watchdog and step_heartbeat share: the clock, the thread that says what happened, and the POSIX
timer behind it. What counts as movement is theirs to say.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaoskit.guards import movement
from chaoskit.guards.context import GuardContext
from chaoskit.guards.movement import What

BACKSTOP_S = 0.3
"""How much later than the Python thread the timer without a GIL acts."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a guard expects. ``missed`` is what did not happen, ``counts`` the movements that it looks for;
    until the first step ``start_s`` applies instead of ``timeout_s``."""

    guard: str
    signal: int
    timeout_s: float
    start_s: float
    missed: str
    counts: frozenset[What]


class Standstill:
    """The clock of one guard in this process: a thread, and the re-arming of the timer behind it."""

    def __init__(self, rank: GuardContext, terms: Terms) -> None:
        self._rank = rank
        self._terms = terms
        self._allowed_s = terms.start_s  # until the first step
        self._process = os.getpid()
        self._last = time.monotonic()
        self._phase_until = 0.0
        self._sooner = threading.Event()  # the deadline may have come nearer
        faulthandler.register(terms.signal, file=2, all_threads=True, chain=True)
        if not faulthandler.is_enabled():
            faulthandler.enable(file=2)
        self._timer = Timer(terms.signal)
        self._timer_set = 0.0
        self._set_timer(self._last)
        threading.Thread(target=self._run, name=f"chaoskit {terms.guard}", daemon=True).start()

    def moved(self, what: What) -> None:
        if what not in self._terms.counts:
            return
        now = self._last = time.monotonic()
        if what == "step" and self._allowed_s != self._terms.timeout_s:
            self._allowed_s = self._terms.timeout_s
            self._set_timer(now)
            self._sooner.set()
        # A timer that is up to 2 % late and never early costs a comparison instead of a system call.
        elif now - self._timer_set > self._allowed_s * 0.02:
            self._set_timer(now)

    def allow(self, until: float) -> None:
        self._phase_until = until
        self._last = time.monotonic()
        self._set_timer(self._last)
        self._sooner.set()

    def _deadline(self) -> float:
        return max(self._last + self._allowed_s, self._phase_until)

    def _set_timer(self, now: float) -> None:
        if os.getpid() != self._process:  # a forked child has no timer
            return
        self._timer_set = now
        self._timer.set(self._deadline() - now + self._allowed_s * 0.02 + BACKSTOP_S)

    def _run(self) -> None:
        terms = self._terms
        park = parked(
            self._sooner.wait,
            f"chaoskit: guard {terms.guard}: {terms.missed} for {terms.timeout_s:g} s; this rank ends by "
            f"signal {terms.signal} (exit -{terms.signal}); see the stacks here for where it stands",
        )
        while True:
            self._sooner.clear()
            left = self._deadline() - time.monotonic()
            if left <= 0:
                break
            park(left)
        stood = time.monotonic() - self._last
        self._rank.fired(
            terms.guard,
            -terms.signal,
            f"{terms.missed} for {stood:.1f} s ({movement.whereabouts()}); "
            f"expected one every {self._allowed_s:g} s; see the stacks below, "
            "or declare a long phase with chaoskit.guards.phase",
        )
        # With the GIL held here the dump sees no frame in motion; the handler without it is not needed now.
        self._timer.set(10.0)
        faulthandler.dump_traceback(file=2, all_threads=True)
        faulthandler.unregister(terms.signal)
        os.kill(os.getpid(), terms.signal)


def parked(wait: Callable[[float], object], message: str) -> Callable[[float], object]:
    """Return a function that waits, and whose stack frame says ``message`` in a dump of all threads.

    faulthandler prints the file name of every frame without needing the GIL; nothing else that can be
    prepared in Python ends up in its output.
    """
    scope: dict[str, Any] = {"wait": wait}
    exec(compile("def chaoskit(seconds): wait(seconds)", message, "exec"), scope)  # noqa: S102 - a constant
    function: Callable[[float], object] = scope["chaoskit"]
    return function


class _Event(ctypes.Structure):
    """struct sigevent, with SIGEV_SIGNAL."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    )


class Timer:
    """A POSIX timer on CLOCK_MONOTONIC that sends this process a signal; re-arming costs about 2 µs."""

    def __init__(self, signo: int) -> None:
        # PyDLL keeps the GIL: giving it up and getting it back costs more than the call.
        libc = ctypes.PyDLL(None, use_errno=True)
        if not hasattr(libc, "timer_create"):  # glibc before 2.34
            libc = ctypes.PyDLL("librt.so.1", use_errno=True)
        event, self._id = _Event(signo=signo, notify=0), ctypes.c_void_p()
        if libc.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._id)):
            raise OSError(ctypes.get_errno(), "timer_create")
        self._settime = libc.timer_settime

    def set(self, seconds: float) -> None:
        """Send the signal once, in ``seconds``; replaces the time set before."""
        whole = int(seconds)
        spec = (ctypes.c_long * 4)(0, 0, whole, max(1, int((seconds - whole) * 1e9)))
        if self._settime(self._id, 0, ctypes.byref(spec), None):
            print(f"chaoskit: standstill timer: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
