"""Ends a rank that stands still, with its stacks, even while it holds the GIL."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.guards import movement
from chaoskit.guards.context import GuardContext
from chaoskit.guards.standstill import Standstill, Terms
from chaoskit.model import Guard

SIGNAL = signal.SIGRTMIN + 7
"""A real-time signal that nobody else uses; its default action ends the process."""


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
        terms = Terms(
            guard=self.name,
            signal=int(SIGNAL),
            timeout_s=self.timeout_s,
            start_s=self.start_s or self.timeout_s,
            missed="no step and no completed collective",
            counts=frozenset({"step", "completed", "formed"}),
        )
        sees_collectives = movement.follow(Standstill(rank, terms))
        return (
            f"timeout={self.timeout_s:g}s",
            f"start={self.start_s or self.timeout_s:g}s",
            f"signal={int(SIGNAL)}",
            "progress=steps,collectives" if sees_collectives else "progress=steps",
        )
