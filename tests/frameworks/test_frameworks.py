"""Real programs: of the frameworks themselves, or written as their documentation shows, under fault.

Two ranks: importing such a framework costs each rank seconds. One of each runs with every change, the others
nightly. They are skipped where the framework is not installed (`make frameworks` installs them).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from real_runs import Run

from chaoskit.model import Culprit, Outcome, Status, Workload
from chaoskit.request import WatchRequest

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]

PROGRAMS = Path(__file__).parent / "programs"
ACCELERATE = "accelerate.test_utils.scripts"


def script(name: str, *args: str) -> Workload:
    return Workload(name, kind="script", target=str(PROGRAMS / name), args=args)


def module(name: str, *args: str) -> Workload:
    return Workload(name, kind="module", target=name, args=args)


LIGHTNING = script("lightning_ddp.py", "--devices", "2", "--out", "{scratch}")
HF_TRAINER = script("hf_trainer.py", "--out", "{scratch}")
DCP = script("dcp_checkpoints.py", "--out", "{scratch}")


def needs(framework: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(framework) is None
    return pytest.mark.skipif(missing, reason=f"{framework} is not installed: make frameworks")


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(module(f"{ACCELERATE}.test_sync"), marks=needs("accelerate"), id="accelerate"),
        pytest.param(LIGHTNING, marks=needs("lightning"), id="lightning"),
        pytest.param(HF_TRAINER, marks=needs("transformers"), id="hf-trainer"),
        pytest.param(DCP, id="dcp"),
    ],
)
def test_a_frozen_rank_ends_the_program_under_strict_and_is_named(run: Run, program: Workload) -> None:
    """Without guards the others wait for it; that the program completes by itself is seen first."""
    result = run("rank-stopped", program=program, ranks=2)
    scenario = result.scenarios[0]
    assert scenario.result == "held", scenario.reason
    control, hardened = scenario.verdicts
    assert (control.status, control.outcome) == (Status.PASS, Outcome.HUNG)
    assert (hardened.status, hardened.outcome) == (Status.PASS, Outcome.FAILED)
    assert control.culprits == hardened.culprits == (Culprit("rank", "1"),)


ALL = [
    pytest.param(module(f"{ACCELERATE}.test_ops"), marks=needs("accelerate"), id="accelerate-ops"),
    pytest.param(module(f"{ACCELERATE}.test_sync"), marks=needs("accelerate"), id="accelerate-sync"),
    pytest.param(LIGHTNING, marks=needs("lightning"), id="lightning"),
    pytest.param(HF_TRAINER, marks=needs("transformers"), id="hf-trainer"),
    pytest.param(DCP, id="dcp"),
]


@pytest.mark.nightly
@pytest.mark.parametrize("profile", ["recommended", "strict"])
@pytest.mark.parametrize("program", ALL)
def test_guards_leave_a_healthy_program_alone(
    shared_servers: None, tmp_path: Path, program: Workload, profile: str
) -> None:
    from chaoskit import engine
    from chaoskit.scenario import load_profile

    asked = WatchRequest(program, ranks=2, profile=load_profile(profile), runs_dir=tmp_path / "runs")
    (verdict,) = engine.watch(asked).verdicts
    assert (verdict.status, verdict.outcome) == (Status.PASS, Outcome.COMPLETED), verdict.reason


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", ["rank-killed-mid-all-reduce", "rank-leaves-early"])
@pytest.mark.parametrize("program", ALL[2:])
def test_other_faults_are_held_too(run: Run, program: Workload, scenario: str) -> None:
    result = run(scenario, program=program, ranks=2)
    assert result.scenarios[0].result in ("held", "not_needed"), result.scenarios[0].reason
