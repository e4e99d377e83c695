"""Progress where nobody can watch a table (a pipe, a CI log): one line per finished arm and scenario.

Each line is flushed as it comes. A reader that goes away ends the lines, never the run.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.text import Text

from chaoskit.model import ScenarioResult, Status, Verdict
from chaoskit.reports.console import STYLE, Pen
from chaoskit.reports.wording import culprits_of, latency_of, outcome_of, plural, words
from chaoskit.request import WATCH, ArmId, Silent


class ProgressLines:
    """An observer of a run (see chaoskit.request) that prints plain lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pen = Pen(console)
        self._total = 0
        self._done = 0
        self._gone = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        self._total = len(arms)
        where = self._pen.text(str(run_dir))
        self._print(Text(f"{plural(len(arms), 'arm')}, seed {seed}, run directory {where}"))

    def arm_started(self, arm: ArmId, limit_s: float) -> None: ...

    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None:
        self._done += 1
        count = str(max(self._total, self._done))
        name = arm_name(arm, self._pen)
        facts = ", ".join(p for p in (outcome_of(verdict), latency_of(verdict), culprits_of(verdict)) if p)
        reason = f": {verdict.reason}" if verdict.reason and verdict.status is not Status.PASS else ""
        number = f"[{self._done:>{len(count)}}/{count}] "
        status = (f"{words(verdict.status):<12}", STYLE[verdict.status])
        self._print(Text.assemble(number, status, " ", name, "  ", self._pen.text(facts + reason)))

    def scenario_ended(self, result: ScenarioResult) -> None:
        outcome = (words(result.result), STYLE[result.result])
        self._print(Text.assemble(self._pen.name(result.name), " ", outcome))

    def _print(self, line: Text) -> None:
        if self._gone:
            return
        try:
            self._console.print(line, soft_wrap=True)
            self._console.file.flush()
        except (OSError, ValueError):  # ValueError: the file was closed
            self._gone = True


class StartLine(Silent):
    """An observer that prints where the run directory is, and no more: what follows is one report anyway."""

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        pen = Pen(self._console)
        line = f"watching {pen.name(self._what)}, seed {seed}, run directory {pen.text(str(run_dir))}"
        with suppress(OSError, ValueError):  # ValueError: the file was closed
            self._console.print(Text(line), soft_wrap=True)
            self._console.file.flush()


def arm_name(arm: ArmId, pen: Pen) -> str:
    """Return ``scenario/arm``, with the repeat and attempt where they are not the first."""
    if arm.scenario == arm.arm == WATCH:  # no scenario and no arm that anybody knows of
        return WATCH
    repeat = f" [{arm.repeat}]" if arm.repeat > 1 else ""
    attempt = f" (attempt {arm.attempt})" if arm.attempt > 1 else ""
    return f"{pen.name(arm.scenario)}/{pen.name(arm.arm)}{repeat}{attempt}"
