"""Progress of a matrix: a line for each batch, and now and then how far it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.text import Text

from chaoskit.reports.console import Pen
from chaoskit.reports.lines import Lines
from chaoskit.reports.wording import plural, seconds
from chaoskit.request import ArmId
from chaoskit.verdict import Verdict

EVERY_S = 5.0
_EQUAL = 6
"""So many times longer it is silent while the count stays what it is."""
_LOOKS = 5
"""How often it is looked in that time whether something is to be said."""


class MatrixProgress:
    """An observer of a matrix (see chaoskit.matrix.request)."""

    def __init__(
        self, console: Console, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lines = Lines(console)
        self._pen = Pen(console)
        self._every_s = every_s
        self._clock = clock
        self._batch = 0
        self._done = self._total = self._said = 0
        self._begun: set[ArmId] = set()
        self._began_s = self._said_s = clock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="matrix progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(1.0)  # it may be stuck where nobody reads

    def opened(self, folder: Path, seed: int, damaged: int, changed: tuple[str, ...]) -> None:
        self._print(f"seed {seed}, folder {folder}")
        if damaged:
            self._print(f"{plural(damaged, 'damaged line')} among the kept cells: those cells are run again")
        if changed:
            what = " and ".join(changed)
            self._print(f"{what} changed since the last time: of the kept cells only those of now are taken")

    def program_started(self, name: str) -> None:
        self._print(f"{name} is run once without any fault first, to see what it does")

    def program_ended(self, name: str, broken: str) -> None:
        if broken:
            self._print(broken)

    def batch_started(self, what: str, to_run: int, kept: int) -> None:
        self._batch += 1
        self._done = self._said = 0
        self._total, self._began_s = to_run, self._clock()
        self._begun.clear()
        from_before = f" ({kept} kept from before)" if kept else ""
        self._print(f"batch {self._batch}: {what}: {plural(to_run, 'cell')} to run{from_before}")

    def cell_started(self, arm: ArmId, limit_s: float) -> None:
        """Nothing is said of single cells; only those that start count."""
        self._begun.add(arm)

    def cell_ended(self, arm: ArmId, verdict: Verdict) -> None:
        if arm not in self._begun:
            return  # it could not be run at all
        if arm.attempt > 1:
            self._total += 1
        self._done += 1

    def batch_ended(self, wall_s: float) -> None:
        self._print(f"batch {self._batch} took {seconds(wall_s)}")
        self._total = 0

    def _beat(self) -> None:
        while not self._over.wait(self._every_s / _LOOKS):
            silent_s = self._every_s * (1 if self._done != self._said else _EQUAL)
            if self._total and self._clock() - self._said_s >= silent_s:
                self._said = self._done
                passed = seconds(self._clock() - self._began_s)
                self._print(f"  {self._done} of {max(self._total, self._done)} after {passed}")

    def _print(self, text: str) -> None:
        self._said_s = self._clock()
        self._lines.print(Text(self._pen.text(text), "dim"))
