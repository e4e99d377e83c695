"""Fifty repeats of every scenario on a loaded machine give fifty equal verdicts. All of them in one run."""

from __future__ import annotations

import functools
import os
from collections import Counter
from pathlib import Path

import pytest
from real_runs import Finished, Heard, last_attempts, load, signature

from chaoskit import engine
from chaoskit.model import Expectation, Outcome, Result, ScenarioResult, Status, Verdict
from chaoskit.request import RunRequest
from chaoskit.scenario import load_library, profile_names
from chaoskit.scenario.listing import listing

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(6 * 3600)]

REPEATS = int(os.environ.get("CHAOSKIT_REPEATS", "50"))
BURNERS = 2
NAMES = [entry.name for entry in listing()]
TWINS = [entry.name for entry in listing() if entry.family == "healthy"]


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The whole library, every arm REPEATS times, beside BURNERS processes that never rest."""
    heard = Heard()
    folder = Path(os.environ.get("CHAOSKIT_NIGHTLY_RUNS", tmp_path_factory.mktemp("repeats")))
    request = RunRequest(tuple(load_library()), repeat=REPEATS, runs_dir=folder, command="nightly repeats")
    with load(BURNERS):
        return Finished(engine.run(request, heard), heard)


def told(scenario: ScenarioResult, arm: str) -> str:
    """Each signature with how often and where it was seen first."""
    verdicts = last_attempts(scenario)[arm]
    counts = Counter(map(signature, verdicts))
    first = {signature(v): f"repeat {v.repeat}: {v.reason}" for v in reversed(verdicts)}
    return "\n".join(f"{count} × {one} ({first[one]})" for one, count in counts.most_common())


@functools.cache
def contracts(name: str) -> dict[str, Expectation]:
    return {arm.name: arm.expect for s in load_library() if s.name == name for arm in s.arms}


def promised(name: str, verdict: Verdict) -> tuple[object, ...]:
    """What has to be equal in every repeat: of who did it, as much as the arm's contract says.

    Where several ranks raise the same, or are killed, it is chance who does before the others end it.
    """
    expect = contracts(name)[verdict.arm]
    return signature(verdict) if expect.culprits else (verdict.status, verdict.outcome)


@pytest.mark.parametrize("name", NAMES)
def test_every_repeat_gives_the_same_verdict(name: str, repeated: Finished) -> None:
    scenario = repeated.scenario(name)
    if scenario.result is Result.SKIPPED:
        pytest.skip(scenario.reason)
    different = {
        arm: told(scenario, arm)
        for arm, verdicts in last_attempts(scenario).items()
        if len({promised(name, v) for v in verdicts}) != 1 or len(verdicts) != REPEATS
    }
    assert different == {}, "\n".join(f"{arm}:\n{text}" for arm, text in different.items())


@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_is_held_or_not_needed(name: str, repeated: Finished) -> None:
    scenario = repeated.scenario(name)
    if scenario.result is Result.SKIPPED:
        pytest.skip(scenario.reason)
    assert scenario.result in (Result.HELD, Result.NOT_NEEDED), scenario.reason


@pytest.mark.parametrize("name", TWINS)
def test_a_healthy_twin_completes_under_every_profile(name: str, repeated: Finished) -> None:
    """Every built-in profile is an arm of the twin, or the file says what it does instead."""
    (scenario,) = (s for s in load_library() if s.name == name)
    profiles = {arm.profile for arm in scenario.arms}
    recorded = {k.profile for k in scenario.known}
    assert profiles | recorded >= set(profile_names())
    if repeated.scenario(name).result is Result.SKIPPED:
        pytest.skip(repeated.scenario(name).reason)
    for verdict in repeated.scenario(name).verdicts:
        assert (verdict.status, verdict.outcome) == (Status.PASS, Outcome.COMPLETED), verdict
        assert verdict.culprits == ()


def test_nothing_was_left_behind_and_nothing_went_wrong_with_us(repeated: Finished) -> None:
    wrong = [
        v for v in repeated.result.verdicts if "chaoskit's own fault" in v.reason or "left behind" in v.reason
    ]
    assert wrong == []
    assert list(repeated.result.run_dir.rglob("error.txt")) == []


def test_all_are_judged_again_alike(repeated: Finished) -> None:
    for verdict in repeated.result.verdicts:
        if verdict.status is Status.SKIPPED:
            continue  # it has no plan
        name = verdict.arm
        name += f"-r{verdict.repeat}" if verdict.repeat > 1 else ""
        name += f"-a{verdict.attempt}" if verdict.attempt > 1 else ""
        assert engine.judge_again(repeated.result.run_dir / verdict.scenario / name) == verdict
