"""The observers that ``run`` and ``watch`` give the engine: what is known so far, and what is shown."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO

from chaoskit.model import Backend, Result, ScenarioResult, Verdict
from chaoskit.reports.judged import Judged
from chaoskit.request import ArmId, HearsOfWaits, Observer, Silent


class Known:
    """Keeps what a run has shown so far, for the reports of a run that does not come to its end."""

    def __init__(self) -> None:
        self.run_dir: Path | None = None
        self._seed: int | None = None
        self._began_s = time.monotonic()
        self._ended: list[ScenarioResult] = []
        self._open: dict[tuple[str, Backend], list[Verdict]] = {}

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        self.run_dir = run_dir
        self._seed = seed

    def arm_started(self, arm: ArmId, limit_s: float) -> None:
        self._open.setdefault((arm.scenario, arm.backend), [])

    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None:
        self._open.setdefault((arm.scenario, arm.backend), []).append(verdict)

    def scenario_ended(self, result: ScenarioResult) -> None:
        self._ended.append(result)
        self._open.pop((result.name, result.backend), None)

    def results(self) -> tuple[ScenarioResult, ...]:
        """Return the results so far; a scenario with arms missing is inconclusive."""
        reason = "the run ended before all arms of this scenario had"
        cut = (
            ScenarioResult(name, backend, Result.INCONCLUSIVE, reason, tuple(verdicts))
            for (name, backend), verdicts in self._open.items()
        )
        return (*self._ended, *cut)

    def interrupted(self, torch: str) -> Judged:
        """Return what can be reported of a run that was cut off."""
        wall_s = time.monotonic() - self._began_s
        return Judged(self.run_dir or Path(), self._seed, torch, self.results(), wall_s, interrupted=True)


class Both:
    """Tells two observers, the first one first."""

    def __init__(self, first: Observer, second: Observer) -> None:
        self._observers = (first, second)

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        for observer in self._observers:
            observer.run_started(run_dir, seed, arms)

    def arm_started(self, arm: ArmId, limit_s: float) -> None:
        for observer in self._observers:
            observer.arm_started(arm, limit_s)

    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None:
        for observer in self._observers:
            observer.arm_ended(arm, verdict)

    def scenario_ended(self, result: ScenarioResult) -> None:
        for observer in self._observers:
            observer.scenario_ended(result)

    def arm_waits(self, arm: ArmId, said: str, since_s: float) -> None:
        for observer in self._observers:
            if isinstance(observer, HearsOfWaits):
                observer.arm_waits(arm, said, since_s)


def progress(
    stdout: IO[str], stderr: IO[str], *, json: bool, watching: str = ""
) -> AbstractContextManager[Observer]:
    """Return what shows the progress: a live table on a terminal, else lines on stderr; the report that
    follows is alone on stdout where that is a file or a pipe. ``watching`` is the program of a watch."""
    from chaoskit.reports.console import console_for, is_live
    from chaoskit.reports.live import LiveTable
    from chaoskit.reports.progress_lines import ProgressLines, StartLine

    stream = stderr if json else stdout
    console = console_for(stream)
    if is_live(stream, console):
        return LiveTable(console)
    if json:
        return nullcontext(Silent())
    lines = console_for(stderr)
    return StartLine(lines, watching) if watching else ProgressLines(lines)
