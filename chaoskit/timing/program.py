"""A user's program, held at the end of a step while the other set of ranks runs.

Its steps are those of ``chaoskit.guards.step_done()``, or else of its optimizers. The clock is bound before
the program runs: one that replaces time.perf_counter replaces its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter

from chaoskit import progress
from chaoskit.model import Workload
from chaoskit.rank import program
from chaoskit.timing.messages import Block, Failed, Prepared, Timed, Wire


class Pacer:
    """Rests at the end of a step until it is told how many to time. A listener of chaoskit.progress."""

    def __init__(self, wire: Wire, prepared: Callable[[], Prepared]) -> None:
        self._wire = wire
        self._prepared = prepared  # asked after the first step: the program has formed its groups by then
        self._block: Block | None = None  # None: none has been asked for yet
        self._made = 0  # steps of the block
        self._started = 0.0

    def step_done(self, step: int) -> None:
        now = perf_counter()
        self._made += 1
        if self._block is None:
            self._rest(self._prepared())
        elif self._made == self._block.lead:
            self._started = now
        elif self._made == self._block.lead + self._block.calls:
            self._rest(Timed(now - self._started))

    def _rest(self, said: Prepared | Timed) -> None:
        """Answer, and rest until the next block is asked for."""
        self._wire.send(said)
        told = self._wire.receive()
        if told is None:  # enough has been measured; whatever the program does at its end is not wanted
            os._exit(0)
        assert isinstance(told, Block)
        self._block, self._made = told, 0

    def phase_begin(self, name: str, allowance_s: float) -> None:
        """Long phases are part of a step."""

    def phase_end(self, name: str) -> None:
        """Long phases are part of a step."""

    def report_result(self, value: float) -> None:
        """Results are not of interest here."""

    def finished(self) -> None:
        """The end is told by the end of the program."""


def follow(wire: Wire, chosen: Workload, prepared: Callable[[], Prepared]) -> int:
    """Run the program to its end, or until the one that measures has enough."""
    pacer = Pacer(wire, prepared)
    progress.subscribe(pacer)
    progress.count_optimizer_steps()
    try:
        program.run(chosen)
    except SystemExit as leaving:
        if leaving.code:
            raise
    wire.send(Failed("the program is through", finished=True))
    return 0
