"""Plans for nccl on GPUs that a fake of NVML shows: environments per rank, notes, reasons to skip."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chaoskit import capabilities, placing
from chaoskit.agenda import Agenda, Item, plan_to_watch
from chaoskit.errors import InvalidInput
from chaoskit.gpu import cuda_build, nvml
from chaoskit.gpu.devices import Gpu
from chaoskit.gpu.sharing import RANK_MIB
from chaoskit.model import Plan, Workload
from chaoskit.request import RunRequest, WatchRequest
from chaoskit.scenario import load_profile, select

Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Make this a machine with GPUs, whatever it has."""

    def make(
        count: int, nccl: tuple[int, ...] | None = (2, 30, 3), cuda: bool = True, free_mib: int = 40_000
    ) -> None:
        shown = tuple(Gpu(n, "Fake", f"GPU-{n}", 80_000, free_mib - n) for n in range(count))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(nvml, "gpus", lambda: shown)
        monkeypatch.setattr(cuda_build, "has_cuda", lambda: cuda)
        monkeypatch.setattr(cuda_build, "nccl_version", lambda: nccl)
        capabilities._tried.cache_clear()

    yield make
    capabilities._tried.cache_clear()


def item(name: str = "rank-stopped", **asked: Any) -> Item:
    scenarios = tuple(select([name]))
    request = RunRequest(scenarios, **{"backend": "nccl", **asked})
    return Agenda(request, seed=1, isolated=asked.pop("isolated", True)).items()[0]


def plans(found: Item) -> list[Plan]:
    return list(found.plans.values())


def told(plan: Plan, name: str) -> list[str | None]:
    return [dict(rank.env).get(name) for rank in plan.ranks]


def test_on_one_gpu_four_ranks_share_it_and_the_verdict_will_say_so(machine: Machine) -> None:
    machine(1)
    found = item()
    assert found.skip == ""
    for plan in plans(found):
        assert told(plan, "NCCL_HOSTID") == [f"chaoskit-{n}" for n in range(4)]
        assert told(plan, "LOCAL_RANK") == ["0", "1", "2", "3"]
        assert plan.gpu_mib == 4 * RANK_MIB
        assert [n for n in plan.notes if n.startswith("gpu-sharing host-ids: 4 ranks share 1 GPU")]
        assert "--gpu-sharing" not in plan.rerun


def test_the_users_choice_comes_before_the_files(machine: Machine) -> None:
    machine(2)
    (plan, *_) = plans(item(gpu_sharing="multi-rank"))
    assert told(plan, "NCCL_MULTI_RANK_GPU_ENABLE") == ["1"] * 4
    assert told(plan, "NCCL_HOSTID") == [None] * 4
    assert plan.gpu_mib == 2 * RANK_MIB
    assert "--gpu-sharing multi-rank" in plan.rerun


def test_with_a_gpu_for_each_rank_nothing_is_special(machine: Machine) -> None:
    machine(8)
    for plan in plans(item()):
        assert not [name for rank in plan.ranks for name, _ in rank.env if name.startswith("NCCL_")]
        assert plan.notes == ()


def test_gloo_knows_nothing_of_gpus(machine: Machine) -> None:
    machine(1)
    for plan in plans(item(backend="gloo")):
        assert plan.gpu_mib == 0
        assert not [name for rank in plan.ranks for name, _ in rank.env if name.startswith("NCCL_")]


def test_nccl_has_more_time_to_start_and_longer_timeouts(machine: Machine) -> None:
    machine(1)
    on_gloo, on_nccl = (plans(item(backend=b))[1] for b in ("gloo", "nccl"))
    assert (on_gloo.profile.timeouts.collective_s, on_nccl.profile.timeouts.collective_s) == (3.0, 10.0)
    assert on_nccl.profile.timeouts.init_s == 30.0
    assert on_nccl.start_limit_s >= on_gloo.start_limit_s + 60


@pytest.mark.parametrize(
    ("here", "asked", "why"),
    [
        ({"count": 0}, {}, "the NVIDIA driver sees no GPU"),
        ({"count": 1, "cuda": False}, {}, "this torch has no CUDA"),
        ({"count": 1, "nccl": (2, 27, 3)}, {"gpu_sharing": "multi-rank"}, "here is 2.27.3"),
        ({"count": 1, "nccl": None}, {"gpu_sharing": "multi-rank"}, "could not be found out"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_skipped_with_its_reason_and_never_runs_on_gloo(
    machine: Machine, here: dict[str, Any], asked: dict[str, Any], why: str
) -> None:
    machine(**here)
    found = item(**asked)
    assert why in found.skip
    assert {plan.backend for plan in plans(found)} == {"nccl"}


def test_hidden_gpus_are_a_reason(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "hidden by CUDA_VISIBLE_DEVICES=7" in item().skip


def test_a_scenario_of_nccl_alone_is_skipped_on_gloo(machine: Machine) -> None:
    machine(1)
    assert item("kernel-never-ends", backend="gloo").skip == "not for gloo (the file says: nccl)"


def test_two_ranks_on_one_gpu_meet_on_it(machine: Machine) -> None:
    machine(1)
    for plan in plans(item("two-ranks-one-gpu")):
        assert told(plan, "NCCL_HOSTID") == ["chaoskit-0", "chaoskit-0", "chaoskit-2", "chaoskit-3"]
        assert told(plan, "LOCAL_RANK") == ["0", "0", "2", "3"]


def test_what_a_profile_loses_is_said(machine: Machine) -> None:
    machine(1)
    own = dataclasses.replace(load_profile("strict"), name="own", env=(("NCCL_IB_DISABLE", "0"),))
    control, hardened = plans(item(profile=own))
    assert "without effect where ranks share a GPU so: NCCL_IB_DISABLE=0" in hardened.notes
    assert not [n for n in control.notes if "without effect" in n]


def test_a_program_that_is_watched_shares_as_well(machine: Machine) -> None:
    machine(1)
    request = WatchRequest(Workload("ddp-train"), 2, backend="nccl")
    assert told(plan_to_watch(request, 1, None), "NCCL_HOSTID") == ["chaoskit-0", "chaoskit-1"]


def test_watching_says_why_it_cannot(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(1)
    monkeypatch.setattr(nvml, "gpus", lambda: (Gpu(0, "Fake", compute_mode="exclusive"),))
    with pytest.raises(InvalidInput, match="2 ranks cannot be had on nccl here: GPU 0"):
        plan_to_watch(WatchRequest(Workload("ddp-train"), 2, backend="nccl"), 1, None)


def test_ranks_that_somebody_else_starts_are_placed_by_nobody(machine: Machine) -> None:
    machine(1)
    command = Workload("mine", kind="command", args=("srun", "x"))
    assert plan_to_watch(WatchRequest(command, 2, backend="nccl"), 1, None).gpu_mib == 0


def test_the_supply_is_what_the_fullest_gpu_has_free(machine: Machine) -> None:
    machine(3, free_mib=10_000)
    assert placing.supply_mib() == 9_998
    machine(0)
    assert placing.supply_mib() == 0
