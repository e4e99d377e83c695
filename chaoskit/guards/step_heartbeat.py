"""Ends a rank that completes no step in time, with its stacks, even while it holds the GIL."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.guards import movement
from chaoskit.guards.context import GuardContext
from chaoskit.guards.standstill import Standstill, Terms
from chaoskit.model import Guard

SIGNAL = signal.SIGRTMIN + 9
"""A real-time signal that nobody else uses; its default action ends the process."""


@dataclass(frozen=True, slots=True)
class StepHeartbeat(Guard):
    """No step completed for ``timeout_s``: the rank prints the stacks of all its threads and ends by
    SIGRTMIN+9 (exit -43; 171 in a shell).

    The step heartbeat of the articles, done right. Steps alone count: an optimizer's step, or
    ``chaoskit.guards.step_done()`` where a script calls it. So a rank that goes on exchanging messages
    without getting anywhere (a retry loop, a data loader that hands out nothing) is ended too, which
    progress_watchdog does not see; and a script that works without steps (an evaluation) has to call
    ``step_done()`` or declare a phase. Where the articles' version is a Python thread started late, blind
    while the GIL is held, and ends a long checkpoint, this one

    - is armed at once: until the first step ``start_s`` applies instead of ``timeout_s``;
    - gives a declared phase what it declares: ``with chaoskit.guards.phase("checkpoint", 120): …``;
    - works while the GIL is held (see progress_watchdog for how, and for what neither can end);
    - ends with a code of its own, so that a log tells it from a bug.

    ``timeout_s`` belongs above progress_watchdog's where both are used, and far above the longest step: with
    gradient accumulation, the longest accumulated one.

    ```yaml
    guards:
      step_heartbeat: {timeout: 300s, start: 30m}
    ```
    """

    name: ClassVar[str] = "step_heartbeat"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {-int(SIGNAL): "no step completed within the timeout"}

    timeout_s: float = 300.0
    start_s: float | None = None

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Start both clocks."""
        start_s = self.start_s or self.timeout_s
        terms = Terms(
            guard=self.name,
            signal=int(SIGNAL),
            timeout_s=self.timeout_s,
            start_s=start_s,
            missed="no step completed",
            counts=frozenset({"step"}),
        )
        movement.follow(Standstill(rank, terms))
        return (f"timeout={self.timeout_s:g}s", f"start={start_s:g}s", f"signal={int(SIGNAL)}")
