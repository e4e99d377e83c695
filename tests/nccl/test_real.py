"""On a machine with a GPU: real NCCL process groups, by both ways of sharing one, and every fault.

None of this has been run yet: see docs/nccl.md. What is claimed is what the sources say, and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaoskit import capabilities, engine
from chaoskit.gpu import cuda_build
from chaoskit.gpu.sharing import MULTI_RANK_SINCE, Asked
from chaoskit.model import Outcome, Result, ScenarioResult, Status
from chaoskit.request import RunRequest
from chaoskit.scenario import load_library, select

pytestmark = [pytest.mark.nccl, pytest.mark.timeout(600)]
FAULTS = [s.name for s in load_library() if s.family == "gpu"]
Run = Callable[..., ScenarioResult]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def begin(name: str, sharing: Asked | None = None) -> ScenarioResult:
        request = RunRequest(tuple(select([name])), backend="nccl", runs_dir=tmp_path, gpu_sharing=sharing)
        (found,) = engine.run(request).scenarios
        return found

    return begin


def ways() -> list[Asked]:
    version = cuda_build.nccl_version()
    return ["host-ids", "multi-rank"] if version and version[:2] >= MULTI_RANK_SINCE else ["host-ids"]


def test_a_healthy_job_completes_by_every_way_of_sharing(run: Run) -> None:
    for way in ways():
        found = run("gpu-kernel-long", way)
        assert found.result in (Result.HELD, Result.NOT_NEEDED), (way, found.reason)
        assert {v.outcome for v in found.verdicts} == {Outcome.COMPLETED}
        if len(capabilities.gpus()) < 4:
            assert all(any(f"gpu-sharing {way}" in note for note in v.notes) for v in found.verdicts)


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_fires_and_strict_keeps_its_contract(run: Run, name: str) -> None:
    found = run(name)
    hardened = next(v for v in found.verdicts if v.arm == "hardened")
    assert hardened.status is Status.PASS, (hardened.reason, hardened.notes)
    assert found.result in (Result.HELD, Result.NOT_NEEDED), found.reason


def test_arms_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    names = ["rank-killed-mid-all-reduce", "rank-stopped", "uncaught-exception", "gpu-kernel-long"]
    found = engine.run(RunRequest(tuple(select(names)), backend="nccl", runs_dir=tmp_path))
    assert not [v for v in found.verdicts if v.status is Status.INCONCLUSIVE], found.verdicts
