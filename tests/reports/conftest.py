"""Synthetic verdicts and results for the reports: no rank is started here."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from chaoskit.model import Culprit, Kind, Operation, Outcome, RankEnd, Result, ScenarioResult, Status, Verdict
from chaoskit.reports.judged import Judged

_HARDENED = Verdict(
    scenario="rank-killed",
    arm="hardened",
    repeat=1,
    attempt=1,
    backend="gloo",
    profile="recommended",
    status=Status.PASS,
    reason="",
    outcome=Outcome.FAILED,
    kind=Kind.KILLED,
    bound_s=2.0,
    production_bound_s=2.0,
    latency_s=0.0871,
    culprits=(Culprit("rank", "1"),),
    victims=(0, 2, 3),
    where="train.py:31",
    ranks=(RankEnd(0, 82, 0.0871, Operation("all_reduce", "default", 8)), RankEnd(1, -9, 0.001)),
    rerun="chaoskit run rank-killed --arm hardened --seed 7",
)


@pytest.fixture(scope="session")
def verdict() -> Callable[..., Verdict]:
    """Make a verdict of a hardened arm that passed, with the fields given changed."""

    def make(**changes: object) -> Verdict:
        return dataclasses.replace(_HARDENED, **changes)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def result() -> Callable[..., ScenarioResult]:
    """Make a scenario's result of its verdicts; held unless said otherwise."""

    def make(
        *verdicts: Verdict, result: Result = Result.HELD, reason: str = "", name: str = ""
    ) -> ScenarioResult:
        first = verdicts[0].scenario if verdicts else "rank-killed"
        return ScenarioResult(name or first, "gloo", result, reason, verdicts)

    return make


@pytest.fixture(scope="session")
def judged() -> Callable[..., Judged]:
    def make(*results: ScenarioResult, interrupted: bool = False) -> Judged:
        return Judged(Path("runs/20260101-7"), 7, "2.13.0", results, 1.2345, interrupted)

    return make


@pytest.fixture(scope="session")
def console() -> Callable[..., Console]:
    """Make a console that writes into memory; its text is ``console.file.getvalue()``."""

    def make(width: int = 80, height: int = 24, encoding: str = "utf-8", terminal: bool = False) -> Console:
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict", write_through=True)
        return Console(
            file=stream,
            width=width,
            height=height,
            force_terminal=terminal,
            color_system="standard" if terminal else None,
            markup=False,
            emoji=False,
            highlight=False,
            _environ={"TERM": "xterm"},
        )

    return make


@pytest.fixture(scope="session")
def printed() -> Callable[[Console], str]:
    """Return what was printed to a console made by the fixture ``console``."""

    def read(console: Console) -> str:
        stream = console.file
        assert isinstance(stream, io.TextIOWrapper)
        raw = stream.buffer
        assert isinstance(raw, io.BytesIO)
        return raw.getvalue().decode(stream.encoding)

    return read
