"""Progress where nobody can watch a table (a pipe, a CI log): one line per finished arm and scenario.

Where nothing ends for a while, a line says so now and then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from chaoskit.model import ScenarioResult, Status, Verdict
from chaoskit.reports.console import STYLE, Pen
from chaoskit.reports.heartbeat import EVERY_S
from chaoskit.reports.lines import Telling
from chaoskit.reports.wording import culprits_of, latency_of, outcome_of, plural, seconds, words
from chaoskit.request import WATCH, ArmId, Silent

REASON_MAX = 120
"""Characters of a reason on a line."""


class ProgressLines(Telling):
    """An observer of a run (see chaoskit.request) that prints plain lines."""

    def __init__(
        self, console: Console, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(console, every_s)
        self._clock = clock
        self._total = 0
        self._done = 0
        self._running: dict[ArmId, tuple[float, float]] = {}
        """Since when, and how long it may take."""

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        self._total = len(arms)
        where = self._pen.text(str(run_dir))
        self._say(f"{plural(len(arms), 'arm')}, seed {seed}, run directory {where}")

    def arm_started(self, arm: ArmId, limit_s: float) -> None:
        self._running[arm] = (self._clock(), limit_s)

    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None:
        self._done += 1
        self._running.pop(arm, None)
        count = str(max(self._total, self._done))
        name = arm_name(arm, self._pen)
        facts = ", ".join(p for p in (outcome_of(verdict), latency_of(verdict), culprits_of(verdict)) if p)
        reason = self._reason(verdict) if verdict.status is not Status.PASS else ""
        number = f"[{self._done:>{len(count)}}/{count}] "
        status = (f"{words(verdict.status):<12}", STYLE[verdict.status])
        self._say(Text.assemble(number, status, " ", name, "  ", self._pen.text(facts), reason))

    def _reason(self, verdict: Verdict) -> str:
        """Its begin: the summary has the whole, once for all repeats."""
        said = self._pen.text(verdict.reason)
        short = said if len(said) <= REASON_MAX else said[: REASON_MAX - 1].rstrip() + self._pen.more
        return f": {short}" if short else ""

    def scenario_ended(self, result: ScenarioResult) -> None:
        outcome = (words(result.result), STYLE[result.result])
        self._say(Text.assemble(self._pen.name(result.name), " ", outcome))

    def arm_waits(self, arm: ArmId, said: str, since_s: float) -> None:
        if said:
            self._say(waiting_line(arm, said, self._clock() - since_s, self._pen))

    def _still_running(self, passed_s: float) -> None:
        running = sorted(dict(self._running).items(), key=lambda one: one[1][0])
        said = f"{self._done}/{max(self._total, self._done)} arms done, {len(running)} running"
        if running:
            arm, (since_s, limit_s) = running[0]
            limit = f" of {seconds(limit_s)}" if math.isfinite(limit_s) else ""
            longest = f"{seconds(self._clock() - since_s)}{limit}"
            said += f", the longest {arm_name(arm, self._pen)} ({longest})"
        self._lines.print(Text(f"after {seconds(passed_s)}: {said}", style="dim"))


class StartLine(Telling, Silent):
    """An observer that prints where the run directory is, and later that it still watches: what follows is
    one report anyway."""

    def __init__(self, console: Console, what: str, every_s: float = EVERY_S) -> None:
        super().__init__(console, every_s)
        self._what = what
        self._waits: tuple[ArmId, str, float] | None = None

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        where = self._pen.text(str(run_dir))
        self._say(f"watching {self._pen.name(self._what)}, seed {seed}, run directory {where}")

    def _still_running(self, passed_s: float) -> None:
        line = f"still watching {self._pen.name(self._what)} after {seconds(passed_s)}"
        self._lines.print(Text(line, style="dim"))
        if (wait := self._waits) is not None:
            self._tell(*wait)

    def arm_waits(self, arm: ArmId, said: str, since_s: float) -> None:
        """Told at once, and again with each sign of life while it lasts."""
        self._waits = (arm, said, since_s) if said else None
        if self._waits is not None:
            self._heartbeat.said()
            self._tell(*self._waits)

    def _tell(self, arm: ArmId, said: str, since_s: float) -> None:
        self._lines.print(waiting_line(arm, said, time.monotonic() - since_s, self._pen))


def waiting_line(arm: ArmId, said: str, waited_s: float, pen: Pen) -> Text:
    """Return who waits for whom, how long, and what can be done: chaoskit cannot tell whether that ends."""
    what = "if that never ends, press Ctrl-C for a report; --timeout bounds it"
    line = f"{arm_name(arm, pen)}: {pen.text(said)}, for {seconds(waited_s)} now: {what}"
    return Text(line, style="yellow")


def arm_name(arm: ArmId, pen: Pen) -> str:
    """Return ``scenario/arm``, with the repeat and attempt where they are not the first."""
    if arm.scenario == arm.arm == WATCH:  # no scenario and no arm that anybody knows of
        return WATCH
    repeat = f" [{arm.repeat}]" if arm.repeat > 1 else ""
    attempt = f" (attempt {arm.attempt})" if arm.attempt > 1 else ""
    return f"{pen.name(arm.scenario)}/{pen.name(arm.arm)}{repeat}{attempt}"
