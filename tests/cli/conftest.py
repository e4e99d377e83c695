"""Synthetic runs for the commands: an engine that starts nothing, and terminals in memory."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from chaoskit.model import (
    Arm,
    Expectation,
    Outcome,
    Result,
    Scenario,
    ScenarioResult,
    Status,
    Topology,
    Verdict,
    Workload,
)
from chaoskit.request import ArmId, Observer, RunRequest, RunResult


@dataclasses.dataclass
class FakeEngine:
    """Tells the observer what the engine would, and passes everything. Nothing is started.

    ``results`` maps a scenario's name to its result; ``interrupt_after`` arms it raises
    KeyboardInterrupt, ``fail_after`` arms RuntimeError.
    """

    results: dict[str, Result] = dataclasses.field(default_factory=dict)
    interrupt_after: int | None = None
    fail_after: int | None = None
    asked: RunRequest | None = None
    _ended: int = 0

    def __call__(self, request: RunRequest, observer: Observer) -> RunResult:
        self.asked = request
        seed = 7 if request.seed is None else request.seed
        run_dir = request.runs_dir / f"20260101-{seed}"
        arms = [ArmId(s.name, a.name, "gloo", 1, 1) for s in request.scenarios for a in s.arms]
        observer.run_started(run_dir, seed, tuple(arms))
        ended = []
        for scenario in request.scenarios:
            verdicts = tuple(self._arm(scenario, arm, observer) for arm in scenario.arms)
            result = self.results.get(scenario.name, Result.HELD)
            ended.append(ScenarioResult(scenario.name, "gloo", result, "because", verdicts))
            observer.scenario_ended(ended[-1])
        return RunResult(run_dir, seed, "2.13.0", tuple(ended), 1.5)

    def _arm(self, scenario: Scenario, arm: Arm, observer: Observer) -> Verdict:
        key = ArmId(scenario.name, arm.name, "gloo", 1, 1)
        observer.arm_started(key, 5.0)
        if self._ended == self.interrupt_after:
            raise KeyboardInterrupt
        if self._ended == self.fail_after:
            raise RuntimeError("the engine broke")
        self._ended += 1
        bad = self.results.get(scenario.name) is Result.NOT_HELD and arm.name != "control"
        verdict = Verdict(
            scenario.name, arm.name, 1, 1, "gloo", arm.profile, Status.FAIL if bad else Status.PASS, "told",
            Outcome.FAILED, latency_s=0.1, bound_s=2.0,
        )  # fmt: skip
        observer.arm_ended(key, verdict)
        return verdict


class Stream(io.StringIO):
    """A text stream in memory that may claim to be a terminal."""

    encoding = "utf-8"

    def __init__(self, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture
def engine() -> Callable[..., FakeEngine]:
    return FakeEngine


@pytest.fixture
def stream() -> Callable[..., Stream]:
    return Stream


@pytest.fixture
def scenario() -> Callable[..., Scenario]:
    """Make a scenario with a control and a hardened arm."""

    def make(name: str, *, family: str = "process", tags: tuple[str, ...] = ()) -> Scenario:
        expect = Expectation((("gloo", Outcome.FAILED),))
        arms = (Arm("control", "torch-defaults", expect), Arm("hardened", "recommended", expect))
        return Scenario(name, "", family, Workload("ddp-train"), Topology(), (), arms, tags=tags)

    return make


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run where nothing is, on a known terminal, whatever the machine running the tests is."""
    monkeypatch.chdir(tmp_path)
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
