"""A user's program, held at the end of a step while the other set of ranks runs.

Its steps are those of ``chaoskit.guards.step_done()``, or else of its optimizers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from chaoskit import progress
from chaoskit.model import Workload
from chaoskit.rank import program
from chaoskit.timing.messages import Block, Failed, Prepared, Timed, Wire


class Pacer:
    """Rests at the end of a step until it is told how many to time. A listener of chaoskit.progress."""

    def __init__(self, wire: Wire, prepared: Callable[[], Prepared]) -> None:
        self._wire = wire
        self._prepared = prepared  # asked after the first step: the program has formed its groups by then
        self._calls = 0  # of the block that is under way; 0: none has been asked for yet
        self._left = 0
        self._started: float | None = None  # None: the step that is not timed, with which all ranks begin

    def step_done(self, step: int) -> None:
        now = time.perf_counter()
        if self._calls and self._started is None:
            self._left, self._started = self._calls, now
            return
        self._left -= 1
        if self._left <= 0:
            self._answer(now)

    def _answer(self, now: float) -> None:
        """Say how long the block took, and rest until the next is asked for."""
        self._wire.send(self._prepared() if self._started is None else Timed(now - self._started))
        told = self._wire.receive()
        if told is None:  # enough has been measured; whatever the program does at its end is not wanted
            os._exit(0)
        assert isinstance(told, Block)
        self._calls, self._started = told.calls, None

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
    program.run(chosen)
    wire.send(Failed("the program is through", finished=True))
    return 0
