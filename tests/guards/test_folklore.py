"""The copied advice does what the articles say, including what is wrong with it."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from guards.job import start

from chaoskit import guards
from chaoskit.guards.folklore_init import FolkloreInit
from chaoskit.guards.folklore_oom_handler import FolkloreOomHandler
from chaoskit.guards.folklore_watchdog import FolkloreWatchdog

WATCHDOG = FolkloreWatchdog(wake_s=0.1, timeout_s=0.5)


def formed(rest: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        dist.init_process_group("gloo")
        dist.barrier()  # gloo may still be connecting here when the other rank has gone on
        rest()

    return run


def test_the_watchdog_ends_a_rank_without_heartbeats() -> None:
    for ended in start(formed(lambda: threading.Event().wait()), WATCHDOG, ranks=1).wait():
        assert ended.code == 1
        assert "no heartbeat for" in ended.err


def test_it_also_ends_a_declared_healthy_checkpoint() -> None:
    def save() -> None:
        with guards.phase("checkpoint", 60):
            time.sleep(50)

    for ended in start(formed(save), WATCHDOG, ranks=1).wait():
        assert ended.code == 1


def test_it_is_blind_while_the_gil_is_held_and_before_the_group_forms() -> None:
    def hold() -> None:
        print("holding")
        ctypes.PyDLL(None).usleep(60_000_000)

    # The time from the forming to the holding, which a loaded machine must not use up by itself.
    job = start(formed(hold), FolkloreWatchdog(wake_s=0.1, timeout_s=4.0), ranks=1)
    job.wait_for("holding", 0)
    assert [ended.code for ended in job.wait(5.0)] == [-9]
    early = start(lambda: threading.Event().wait(), WATCHDOG)
    assert [ended.code for ended in early.wait(1.5)] == [-9, -9]


def test_the_oom_handler_knows_one_text() -> None:
    def fail(text: str) -> Callable[[], None]:
        def run() -> None:
            raise RuntimeError(text)

        return formed(run)

    known, unknown = (
        start(fail(text), FolkloreOomHandler()).wait()
        for text in ("CUDA out of memory", "can't allocate memory")
    )
    assert "guard folklore_oom_handler" in known[1].err.splitlines()[-1]
    assert "out of memory, exiting" not in unknown[1].err
    assert [e.code for e in (*known, *unknown)] == [1, 1, 1, 1]


def test_init_prints_compares_and_fills_one_timeout_only() -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        subgroup = dist.new_group([0, 1])
        for group in (dist.group.WORLD, subgroup):
            print(group._get_backend(torch.device("cpu")).options._timeout / timedelta(seconds=1))  # type: ignore[union-attr]
        dist.barrier()  # rank 0 takes the store along, in which the other may still be meeting

    for slot, ended in enumerate(start(run, FolkloreInit(timeout_s=29)).wait()):
        assert ended.code == 0, ended.err
        assert f"rank={slot} local_rank={slot} world_size=2" in ended.err
        assert ended.out == "29.0\n1800.0\n"
