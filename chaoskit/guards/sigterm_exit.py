"""Ends a rank that was told to terminate and cannot act on it, because it sits in a collective."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import threading
import time
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit import progress
from chaoskit.guards import movement
from chaoskit.guards.context import GuardContext
from chaoskit.model import Guard


@dataclass(frozen=True, slots=True)
class SigtermExit(Guard):
    """SIGTERM ends the rank with exit 143 ``grace_s`` later, unless the script has ended by itself by then.

    Python runs a signal handler between two bytecodes of the main thread, so never while that thread sits
    in a collective: a handler that sets a flag for the step boundary is not even called. Here C code
    notices the signal and a thread of its own counts the grace. The script's handler stays in place: one
    that saves a checkpoint and leaves within ``grace_s`` does so, with its own exit code. Where the script
    installs no handler SIGTERM ends the rank at once by its default action (-15), and where it ignores
    SIGTERM it stays ignored; both are left alone. A phase that the script declares meanwhile (``with
    chaoskit.guards.phase("last checkpoint", 60)``) may take as long as it declares; when it ends, the grace
    begins anew.

    Not ended: a rank that holds the GIL or is stopped (only SIGKILL from outside, see group_kill). asyncio's
    ``add_signal_handler`` takes the wake-up descriptor over; SIGTERM is then asyncio's.
    Keep ``grace_s`` below what the launcher gives before SIGKILL (torchrun and Kubernetes: 30 s).
    """

    name: ClassVar[str] = "sigterm_exit"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {
        143: "told to terminate (SIGTERM), and not gone by itself within the grace"
    }

    grace_s: float = 20.0

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Take the wake-up descriptor of this process. Main thread only."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        phases = _Phases(reader)
        progress.subscribe(phases)
        os.set_blocking(writer, False)
        previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # A forked child shares the pipe: a SIGTERM to a pool's worker is none to this rank.
        os.register_at_fork(after_in_child=_forget_wakeup)
        threading.Thread(
            target=_wait,
            args=(reader, previous, self.grace_s, phases, rank),
            name="chaoskit sigterm_exit",
            daemon=True,
        ).start()
        return (f"grace={self.grace_s:g}s",)


def _forget_wakeup() -> None:
    with contextlib.suppress(ValueError):  # forked from another thread of an interpreter not the main one
        signal.set_wakeup_fd(-1)


class _Phases:
    """Until when the phases allow that were declared after the SIGTERM: an open one may itself be stuck."""

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self.told = False  # a signal has come; the script's handler may run before the waiting thread does
        self.open: list[float] = []
        self.ended = 0.0

    def allow_until(self, grace_s: float) -> float:
        return max((*self.open, self.ended + grace_s))

    def phase_begin(self, name: str, allowance_s: float) -> None:
        told = _is_readable(self._reader, 0) or self.told
        self.open = [*self.open, time.monotonic() + allowance_s if told else 0.0]

    def phase_end(self, name: str) -> None:
        if self.open and self.open[-1]:
            self.ended = time.monotonic()  # first: the waiting thread must not see a moment without either
        self.open = self.open[:-1]

    def step_done(self, step: int) -> None:
        """A script that goes on training has not ended."""

    def report_result(self, value: float) -> None:
        """No matter."""

    def finished(self) -> None:
        """No matter: teardown may hang as well."""


def _is_readable(file: int, timeout_s: float | None) -> bool:
    poll = select.poll()  # select() knows no descriptor above 1023
    poll.register(file, select.POLLIN)
    return bool(poll.poll(timeout_s))


def _wait(reader: int, previous: int, grace_s: float, phases: _Phases, rank: GuardContext) -> None:
    while True:
        _is_readable(reader, None)
        phases.told = True  # before the pipe is empty: see phase_begin
        signals = os.read(reader, 64)
        if previous >= 0:
            with contextlib.suppress(OSError):
                os.write(previous, signals)
        if signal.SIGTERM in signals:
            break
        phases.told = False
    came = time.monotonic()
    until = came + grace_s
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, grace_s))
        until = max(came + grace_s, phases.allow_until(grace_s))
    with contextlib.suppress(Exception):
        faulthandler.dump_traceback(file=2, all_threads=True)
    rank.fired(
        SigtermExit.name,
        143,
        f"SIGTERM came {round(until - came, 3):g} s ago and the script has not ended "
        f"({movement.whereabouts()}); its own handler cannot run inside a collective; "
        "ended now, the stacks are above",
    )
    os._exit(143)
