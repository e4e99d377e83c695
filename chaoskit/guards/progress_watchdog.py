"""Ends a rank that stands still, with its stacks, even while it holds the GIL."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chaoskit.guards import movement
from chaoskit.guards.context import GuardContext
from chaoskit.guards.movement import What
from chaoskit.model import Guard

SIGNAL = signal.SIGRTMIN + 7
"""A real-time signal that nobody else uses; its default action ends the process."""
BACKSTOP_S = 0.3
"""How much later than the Python thread the timer without a GIL acts."""


@dataclass(frozen=True, slots=True)
class ProgressWatchdog(Guard):
    """No step done and no collective completed for ``timeout_s``: the rank prints the stacks of all its
    threads and ends by SIGRTMIN+7 (exit -41; 169 in a shell).

    Armed at once, so it covers start-up and the forming of the process group too; until the first step is
    done ``start_s`` applies instead of ``timeout_s`` (model loading, compilation). A phase declared
    with ``chaoskit.guards.phase("checkpoint", 600)`` extends the deadline to what it declares. Keep
    ``timeout_s`` above the collective timeout: a rank that waits for a peer then fails by that, and only a
    rank that stands still by itself fails by this.

    Two mechanisms: a thread says what happened, in one line; a POSIX timer with faulthandler's C handler acts
    0.3 s later (plus 2 % of the timeout) where the thread cannot run because the GIL is held. It needs no
    GIL; the line is then found in its dump, in the stack of the thread ``chaoskit``. Not ended: a stopped
    (SIGSTOP) or D-state process. A job that was suspended as a whole for longer than the timeout is ended
    when it goes on. Under NCCL a collective counts as completed when it is waited for on the CPU.
    """

    name: ClassVar[str] = "progress_watchdog"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {-int(SIGNAL): "no progress within the timeout"}

    timeout_s: float = 450.0
    start_s: float | None = None

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Start both clocks."""
        watchdog = _Watchdog(rank, self.timeout_s, self.start_s or self.timeout_s)
        sees_collectives = movement.follow(watchdog)
        return (
            f"timeout={self.timeout_s:g}s",
            f"start={self.start_s or self.timeout_s:g}s",
            f"signal={int(SIGNAL)}",
            "progress=steps,collectives" if sees_collectives else "progress=steps",
        )


class _Watchdog:
    """The thread, and the re-arming of the timer behind it."""

    def __init__(self, rank: GuardContext, timeout_s: float, start_s: float) -> None:
        self._rank = rank
        self._timeout_s = timeout_s
        self._allowed_s = start_s  # until the first step
        self._process = os.getpid()
        self._last = time.monotonic()
        self._phase_until = 0.0
        self._sooner = threading.Event()  # the deadline may have come nearer
        faulthandler.register(SIGNAL, file=2, all_threads=True, chain=True)
        if not faulthandler.is_enabled():
            faulthandler.enable(file=2)
        self._timer = Timer(SIGNAL)
        self._timer_set = 0.0
        self._set_timer(self._last)
        threading.Thread(target=self._run, name="chaoskit progress_watchdog", daemon=True).start()

    def moved(self, what: What) -> None:
        if what == "entered":
            return
        now = self._last = time.monotonic()
        if what == "step" and self._allowed_s != self._timeout_s:
            self._allowed_s = self._timeout_s
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
        park = parked(
            self._sooner.wait,
            "chaoskit: guard progress_watchdog: no step and no completed collective for "
            f"{self._timeout_s:g} s; this rank ends by signal {int(SIGNAL)} (exit -{int(SIGNAL)}); "
            "see the stacks here for where it stands",
        )
        while True:
            self._sooner.clear()
            left = self._deadline() - time.monotonic()
            if left <= 0:
                break
            park(left)
        stood = time.monotonic() - self._last
        self._rank.fired(
            self.name,
            -int(SIGNAL),
            f"no step and no completed collective for {stood:.1f} s ({movement.whereabouts()}); "
            f"expected one every {self._allowed_s:g} s; see the stacks below, "
            "or declare a long phase with chaoskit.guards.phase",
        )
        # With the GIL held here the dump sees no frame in motion; the handler without it is not needed now.
        self._timer.set(10.0)
        faulthandler.dump_traceback(file=2, all_threads=True)
        faulthandler.unregister(SIGNAL)
        os.kill(os.getpid(), SIGNAL)

    name = ProgressWatchdog.name


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
            print(f"chaoskit: progress_watchdog: timer: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
