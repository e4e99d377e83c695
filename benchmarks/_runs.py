"""Runs scenarios for a benchmark and gives back what each arm left: verdict, plan and history."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from chaoskit import codec, engine, history, rundir
from chaoskit.history import ArmEnded, ArmStarted, Ended, History, Injected
from chaoskit.model import Plan, Scenario, Verdict
from chaoskit.request import ArmId, RunRequest, RunResult
from chaoskit.scenario import select


@dataclass(frozen=True, slots=True)
class ArmRun:
    verdict: Verdict
    plan: Plan
    history: History

    @property
    def whole_s(self) -> float:
        """From the start of the arm until all of its processes were gone."""
        return self._at(ArmEnded) - self._at(ArmStarted)

    @property
    def after_injection_s(self) -> float:
        """From the injection until the last rank ended."""
        return max(e.t_s for e in self.history.all(Ended)) - self._at(Injected)

    @property
    def after_first_death_s(self) -> float:
        """From the first rank's end until the last rank's."""
        ends = [e.t_s for e in self.history.all(Ended)]
        return max(ends) - min(ends)

    def _at(self, kind: type[ArmStarted | ArmEnded | Injected]) -> float:
        event = self.history.first(kind)
        if event is None:
            raise SystemExit(f"{self.verdict.scenario} {self.verdict.arm}: {self.verdict.reason}")
        return event.t_s


def named(*names: str) -> tuple[Scenario, ...]:
    """Return scenarios of the library (names, or ``all``)."""
    return tuple(select(list(names)))


@contextmanager
def run(request: RunRequest) -> Iterator[tuple[RunResult, list[ArmRun]]]:
    """Run and give the result with every arm's files, which are removed with the block."""
    runs = Path(tempfile.mkdtemp(prefix="chaoskit-benchmark-"))
    try:
        result = engine.run(_with(request, runs))
        yield result, [_load(result.run_dir, v) for v in result.verdicts if v.status != "skipped"]
    finally:
        shutil.rmtree(runs, ignore_errors=True)


def _with(request: RunRequest, runs: Path) -> RunRequest:
    return replace(request, runs_dir=runs, command="benchmark")


def _load(run_dir: Path, verdict: Verdict) -> ArmRun:
    key = ArmId(verdict.scenario, verdict.arm, verdict.backend, verdict.repeat, verdict.attempt)
    folder = rundir.arm_dir(run_dir, key)
    plan = codec.load_plan((folder / "plan.json").read_text(encoding="utf-8"))
    found, _ = history.read(folder / "history.jsonl")
    return ArmRun(verdict, plan, found)
