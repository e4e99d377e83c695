"""The progress of ``chaoskit claims``: a line for each run. An arm's own verdict answers nothing here."""

from __future__ import annotations

import time

from rich.console import Console
from rich.text import Text

from chaoskit.model import ScenarioResult, Status, Verdict
from chaoskit.reports.heartbeat import EVERY_S
from chaoskit.reports.lines import Telling
from chaoskit.reports.progress_lines import arm_name
from chaoskit.reports.wording import outcome_of, plural, seconds
from chaoskit.request import ArmId


class ClaimsProgress(Telling):
    """An observer of a run (see chaoskit.request) that prints plain lines."""

    def __init__(self, console: Console, every_s: float = EVERY_S) -> None:
        super().__init__(console, every_s)
        self._total = 0
        self._done = 0
        self._running: dict[ArmId, float] = {}
        self._skipped: set[str] = set()  # reasons that were told: one reason often skips all arms

    def run_started(self, run_dir: object, seed: int, arms: tuple[ArmId, ...]) -> None:
        self._total = len(arms)
        self._say(f"{plural(len(arms), 'run')}, seed {seed}, run directory {self._pen.text(str(run_dir))}")

    def arm_started(self, arm: ArmId, limit_s: float) -> None:
        self._running[arm] = time.monotonic()

    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None:
        self._done += 1
        began = self._running.pop(arm, None)
        if verdict.status is Status.SKIPPED:
            self._skip(verdict.reason)
            return
        took = "" if began is None else f" ({seconds(time.monotonic() - began)})"
        name = arm_name(arm, self._pen)
        self._say(f"[{self._done}/{max(self._total, self._done)}] {name}: {outcome_of(verdict)}{took}")

    def _skip(self, reason: str) -> None:
        if reason not in self._skipped:
            self._skipped.add(reason)
            self._say(f"skipped (said once for all runs): {self._pen.text(reason)}")

    def scenario_ended(self, result: ScenarioResult) -> None:
        """Nobody asks whether it is held."""

    def _still_running(self, passed_s: float) -> None:
        total = max(self._total, self._done)
        line = f"after {seconds(passed_s)}: {self._done}/{total} done, {len(self._running)} running"
        self._lines.print(Text(line))
