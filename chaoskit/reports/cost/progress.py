"""The progress of a measurement: a line that changes on a terminal, else plain lines on stderr.

An observer of the measuring (chaoskit.cost.request), and of the engine while detection runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.status import Status as Spinner
from rich.text import Text

from chaoskit.cost.detection import treatment_of
from chaoskit.cost.sentence import FAULTS, cost, duration
from chaoskit.cost.telling import is_scant, untold
from chaoskit.cost.values import Case, Comparison, Estimate
from chaoskit.model import Outcome, Verdict
from chaoskit.reports.cost.rows import step
from chaoskit.reports.heartbeat import EVERY_S
from chaoskit.reports.lines import Telling
from chaoskit.reports.wording import plural, seconds
from chaoskit.request import ArmId, Silent

SHOWN_EVERY_S = 0.2
_SHORTEST_S, _OVER_BUDGET = 12.0, 3.0
"""About what the fewest starts of ranks take, also where the budget is shorter, and by how much at most."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What is to come. ``budget_s`` is what each comparison may take, ``detection_s`` what all arms take;
    ``detected`` are the treatments that detection runs under, in order."""

    comparisons: int
    budget_s: float
    arms: int = 0
    detection_s: float = 0.0
    detected: tuple[str, ...] = ()

    def said(self) -> str:
        """Return how much there is to do, and about how long it takes."""
        each_s = max(self.budget_s, min(_OVER_BUDGET * self.budget_s, _SHORTEST_S))
        all_s = self.comparisons * each_s + self.detection_s
        each = f"{plural(self.comparisons, 'comparison')} of up to {duration(self.budget_s)}"
        arms = f" and {plural(self.arms, 'arm')} with a fault" if self.arms else ""
        return f"{each}{arms}, about {duration(all_s, rough=True)} of timing (starts of ranks come on top)"


class CostProgress(Telling, Silent):
    """Tells of comparisons as they begin, narrow and end, then of the arms of detection."""

    def __init__(
        self,
        console: Console,
        expected: Expected,
        live: bool,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console, every_s)
        self._console = console
        self._expected = expected
        self._total = expected.comparisons
        self._budget_s = expected.budget_s
        self._live = live
        self._clock = clock
        self._number = 0
        self._what = ""
        self._said = ""
        self._shown_s = 0.0
        self._spinner: Spinner | None = None
        self._announced = False
        self._arms = self._arms_ended = 0

    def __enter__(self) -> Self:
        if self._live:
            self._spinner = self._console.status("")
            self._spinner.start()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._spinner is not None:
            self._spinner.stop()

    # ------------------------------------------------------------ measuring

    def started(self, run_dir: Path, seed: int, comparisons: int) -> None:
        if self._announced:  # the next model of a sweep
            return
        self._announced = True
        where = self._pen.text(str(run_dir))
        self._say(f"{self._expected.said()}, seed {seed}, run directory {where}")

    def comparison_started(self, treatment: str, case: Case) -> None:
        self._number += 1
        self._what = (
            f"[{self._number}/{self._total}] {self._pen.name(treatment)}, {self._pen.name(case.name)}"
        )
        self._said = "starting ranks"
        self._show(self._said)

    def timed(self, elapsed_s: float, so_far: Estimate | None) -> None:
        passed = f"{seconds(elapsed_s)} of {seconds(self._budget_s)}"
        told = so_far is not None and not is_scant(so_far)
        self._said = f"{passed}, {self._plain(cost(so_far))} so far" if so_far and told else passed
        if self._clock() - self._shown_s >= SHOWN_EVERY_S:
            self._shown_s = self._clock()
            self._show(self._said)

    def comparison_ended(self, comparison: Comparison) -> None:
        estimate = comparison.estimate
        if estimate is None:
            self._say(f"{self._what}: not timed: {self._pen.text(comparison.problem)}", "yellow")
            return
        if why := untold(estimate):
            self._say(self._plain(f"{self._what}: {why}"), "yellow")
            return
        times = f"{step(estimate.plain_s)} → {step(estimate.with_s)}"
        self._say(self._plain(f"{self._what}: {cost(estimate)}, {times}"))

    # ------------------------------------------------------------ detection

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        self._arms, self._arms_ended = len(arms), 0
        self._what = "detection"
        self._said = f"0 of {self._arms} arms ended"  # no longer what was said of the last comparison
        where = self._pen.text(str(run_dir))
        self._say(f"detection: {plural(len(arms), 'arm')} with a fault, run directory {where}")

    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None:
        self._arms_ended += 1
        fault = FAULTS.get(arm.scenario, self._pen.name(arm.scenario))
        ended = verdict.outcome is Outcome.FAILED
        came = seconds(verdict.latency_s) if ended else str(verdict.outcome or verdict.status)
        names = self._expected.detected
        place = treatment_of(arm.arm)
        under = f" under {self._pen.name(names[place])}" if place < len(names) else ""
        self._said = f"{self._arms_ended} of {self._arms} arms ended"
        self._show(self._said)
        self._say(f"detection [{self._arms_ended}/{self._arms}] {fault}{under}: {came}")

    # ------------------------------------------------------------ printing

    def _still_running(self, passed_s: float) -> None:
        if not self._live:
            self._lines.print(Text(f"after {seconds(passed_s)}: {self._what}: {self._said}", "dim"))

    def _show(self, said: str) -> None:
        if self._spinner is not None:
            self._spinner.update(Text(f"{self._what}: {said}"))

    def _plain(self, text: str) -> str:
        """Signs of ours are read also where only ASCII can be printed."""
        if self._pen.more != "…":
            text = text.replace("→", "->").replace("×", "x").replace("µ", "u")
        return self._pen.text(text)
