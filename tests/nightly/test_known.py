"""What a scenario's file records of other profiles (``known:``) is what really happens."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import library
import pytest

from chaoskit import engine
from chaoskit.model import Known, Outcome, Result, Scenario, ScenarioResult, Verdict
from chaoskit.request import RunRequest
from chaoskit.scenario import load_profile

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]

RECORDED: list[tuple[Scenario, Known]] = [
    (scenario, known)
    for scenario in library.scenarios()
    for known in scenario.known
    if known.backend == "gloo"
]


@functools.cache
def results(profile: str) -> dict[str, ScenarioResult]:
    """Run every scenario that records something of ``profile``, side by side, under it."""
    scenarios = tuple(s for s, known in RECORDED if known.profile == profile)
    with tempfile.TemporaryDirectory() as folder:
        request = RunRequest(
            scenarios, profile=load_profile(profile), runs_dir=Path(folder), command="nightly known"
        )
        return {r.name: r for r in engine.run(request).scenarios}


@pytest.mark.parametrize(("scenario", "known"), RECORDED, ids=[f"{s.name}-{k.profile}" for s, k in RECORDED])
def test_what_is_recorded_is_what_happens(scenario: Scenario, known: Known) -> None:
    found = results(known.profile)[scenario.name]
    if found.result is Result.SKIPPED:
        pytest.skip(found.reason)
    assert found.result is known.result, found.reason
    hardened = [v for v in found.verdicts if v.arm != "control"][-1]
    if known.outcome is not None and not ended_in_more_time(known, hardened):
        assert hardened.outcome is known.outcome, hardened.reason


def ended_in_more_time(known: Known, found: Verdict) -> bool:
    """A job that seemed to move, on a loaded machine, got more time: in that a guard of 300 s may end it."""
    if found.bound_s is None or found.latency_s is None:
        return False
    late = found.latency_s > found.bound_s + max(1.5, 0.25 * found.bound_s)  # the first deadline
    return known.outcome is Outcome.HUNG and found.outcome is Outcome.FAILED and late


def test_something_is_recorded_of_the_profiles_that_do_not_hold_everything() -> None:
    assert {known.profile for _, known in RECORDED} >= {"folklore", "torchrun-policy", "recommended"}
