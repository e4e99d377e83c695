"""Arms whose ranks the real torchrun starts: what holds when chaoskit forks them has to hold there, too."""

from __future__ import annotations

import pytest
from real_runs import Run

from chaoskit.model import Culprit, Outcome, Status

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

HELD = (
    "rank-stopped", "rank0-skips-barrier", "uncaught-exception", "rank-leaves-early", "sigterm-swallowed",
    "rank-holds-gil", "dtypes-differ", "world-size-differs", "oom-uncaught", "collectives-swapped",
    "subgroup-timeout", "loader-worker-stuck", "rank-killed-mid-checkpoint", "error-swallowed",
    "sigterm-exits-zero",
)  # fmt: skip


@pytest.mark.nightly
def test_a_frozen_rank_ends_the_job_by_the_sidecars_whatever_torchrun_does(run: Run) -> None:
    (verdict,) = run("rank-stopped", launcher="torchrun", arms=("hardened",)).verdicts
    assert (verdict.status, verdict.outcome) == (Status.PASS, Outcome.FAILED), verdict.reason
    assert verdict.culprits == (Culprit("rank", "1"),)
    assert "group_kill" in verdict.not_applicable, "torchrun has a rule of its own"
    assert "sidecar" not in verdict.not_applicable


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", HELD)
def test_the_library_holds_under_torchrun(run: Run, name: str) -> None:
    (scenario,) = run(name, launcher="torchrun", jobs=1).scenarios
    assert scenario.result in ("held", "not_needed"), scenario.reason


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["rank-slow", "long-step", "rank0-saves-long", "loader-worker-slow"])
def test_a_healthy_job_completes_under_torchrun_with_every_profile(run: Run, name: str) -> None:
    (scenario,) = run(name, launcher="torchrun", jobs=1).scenarios
    assert scenario.result == "held", scenario.reason
