"""Every group gets a timeout; what the script gives itself is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from guards.job import start

from chaoskit.guards.timeouts import Timeouts

GUARD = Timeouts(init_s=20, collective_s=1.0, store_s=7)


def effective(group: dist.ProcessGroup) -> float:
    return float(group._get_backend(torch.device("cpu")).options._timeout.total_seconds())


def printed(given: timedelta | None) -> Callable[[], None]:
    def run() -> None:
        from torch.distributed import distributed_c10d as c10d

        dist.init_process_group("gloo", timeout=given)
        mesh = dist.init_device_mesh("cpu", (1, 2))
        explicit = dist.new_group([0, 1], timeout=timedelta(seconds=33))
        groups = [c10d._get_default_group(), dist.new_group([0, 1]), mesh.get_group(0), explicit]
        print([effective(group) for group in groups], c10d._get_default_store().timeout.total_seconds())
        dist.barrier()  # rank 0 takes the store along, in which the other may still be meeting
        dist.destroy_process_group()

    return run


def test_all_groups_get_it_and_explicit_ones_are_kept() -> None:
    for ended in start(printed(None), replace(GUARD, collective_s=41)).wait():
        assert ended.code == 0, ended.err
        assert ended.out == "[41.0, 41.0, 41.0, 33.0] 7.0\n"


def test_the_scripts_own_is_kept_inherited_and_announced() -> None:
    first, second = start(printed(timedelta(seconds=44)), GUARD).wait()
    assert first.out == second.out == "[44.0, 44.0, 44.0, 33.0] 44.0\n"
    assert "guard timeouts: armed (collective[cpu]=44s (the script's own), " in first.err


def test_without_it_subgroups_do_not_inherit() -> None:
    first, _ = start(printed(timedelta(seconds=44))).wait()
    assert first.out.startswith("[44.0, 1800.0, 1800.0, 33.0]")


def in_subgroup() -> None:
    dist.all_reduce(torch.ones(4), group=dist.new_group([0, 1]))


def monitored() -> None:
    dist.monitored_barrier()


@pytest.mark.parametrize("wait", [in_subgroup, monitored])
@pytest.mark.parametrize("armed", [True, False])
def test_a_skipped_operation_times_out(wait: Callable[[], None], armed: bool) -> None:
    def run() -> None:
        dist.init_process_group("gloo", timeout=None if armed else timedelta(seconds=4))
        print("formed")
        if dist.get_rank() == 1:
            if wait is in_subgroup:
                dist.new_group([0, 1])
            threading.Event().wait()
        wait()

    job = start(run, *([GUARD] if armed else []))
    job.wait_for("formed", 0)
    first, _ = job.wait(45.0 if armed else 6.0, kill=[1])
    assert first.code == (1 if armed else -9), first.err


def test_forming_has_its_own() -> None:
    env = {slot: {"WORLD_SIZE": "3"} for slot in range(2)}
    quick = Timeouts(init_s=1.0, collective_s=50, store_s=50)
    for ended in start(lambda: dist.init_process_group("gloo"), quick, env=env).wait():
        assert ended.code == 1
        assert ended.after_s < 40
