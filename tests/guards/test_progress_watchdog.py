"""A rank that stands still ends, with its stacks; one that moves does not."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from guards.job import start

from chaoskit import guards
from chaoskit.guards.progress_watchdog import ProgressWatchdog

# `timeout_s` counts from the first step: here that is right before what is tried, as a loaded machine must
# not use it up by itself.
GUARD = ProgressWatchdog(timeout_s=1.5, start_s=40.0)


def after_steps(rest: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        dist.init_process_group("gloo")
        for _ in range(3):
            dist.all_reduce(torch.ones(4))
        guards.step_done(3)
        print("steps done")
        rest()

    return run


def stand_still() -> None:
    threading.Event().wait()


def hold_the_gil() -> None:
    ctypes.PyDLL(None).usleep(60_000_000)


def test_a_rank_that_stands_still_says_so_with_its_stacks() -> None:
    for ended in start(after_steps(stand_still), GUARD).wait():
        assert ended.code == -41
        assert "guard progress_watchdog: rank" in ended.err
        assert "(step 3, after all_reduce #3); expected one every 1.5 s" in ended.err
        assert "in stand_still" in ended.err


def test_a_rank_that_holds_the_gil_is_ended_too_and_the_dump_says_why() -> None:
    for ended in start(after_steps(hold_the_gil), GUARD).wait():
        assert ended.code == -41
        assert (
            'File "chaoskit: guard progress_watchdog: no step and no completed collective for 1.5 s'
            in ended.err
        )
        assert "in hold_the_gil" in ended.err


def test_a_wait_inside_a_collective_is_ended() -> None:
    def absent() -> None:
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(4))
        with guards.phase("elsewhere", 600):  # so that it is not this rank that ends first
            stand_still()

    first, _ = start(after_steps(absent), GUARD).wait(kill=[1])
    assert first.code == -41
    assert "in all_reduce #4" in first.err


def test_forming_is_covered() -> None:
    env = {slot: {"WORLD_SIZE": "3"} for slot in range(2)}
    # `timeout_s` counts from arming on, so it also has to cover the way into init_process_group.
    ended = start(lambda: dist.init_process_group("gloo"), ProgressWatchdog(timeout_s=8.0), env=env).wait()
    by_it = [rank for rank in ended if rank.code == -41]  # or the store of rank 0 went away first
    assert by_it
    assert {rank.code for rank in ended} <= {-41, 1}
    assert any("in init_process_group" in rank.err for rank in by_it), by_it


def test_start_up_has_its_own_time_until_the_first_step() -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        dist.barrier()  # gloo may still be connecting here when the other rank has gone on
        threading.Event().wait(0.9)
        guards.step_done()
        stand_still()

    slow_start = ProgressWatchdog(timeout_s=0.5, start_s=40.0)
    for ended in start(run, slow_start).wait():
        assert ended.code == -41
        assert ended.after_s < 40


def test_a_declared_phase_extends_and_then_ends() -> None:
    def run() -> None:
        with guards.phase("checkpoint", 40):
            time.sleep(2.5)
        print("saved")
        stand_still()

    for ended in start(after_steps(run), GUARD).wait():
        assert ended.code == -41
        assert "saved" in ended.out


def test_a_phase_that_takes_longer_than_declared_is_ended() -> None:
    def run() -> None:
        with guards.phase("checkpoint", 0.8):
            stand_still()

    for ended in start(after_steps(run), GUARD).wait():
        assert ended.code == -41


@pytest.mark.parametrize("moves", ["collectives", "steps", "optimizer"])
def test_movement_of_any_kind_keeps_it_quiet(moves: str) -> None:
    def run() -> None:
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], 0.1)
        optimizer.step()  # from here on `timeout_s` counts: forming may take long on a loaded machine
        for _ in range(24):  # a number, not a time: both ranks must issue as many collectives
            time.sleep(0.2)
            if moves == "collectives":
                dist.all_reduce(torch.ones(4), async_op=True).wait()
            elif moves == "steps":
                guards.step_done()
            else:
                optimizer.step()
        with guards.phase("the other's end", 60):
            dist.barrier()

    def job() -> None:
        dist.init_process_group("gloo")
        run()

    ended = start(job, ProgressWatchdog(timeout_s=4.0, start_s=40.0)).wait()
    assert [rank.code for rank in ended] == [0, 0], [rank.err for rank in ended]


def test_without_it_it_stands_for_good() -> None:
    job = start(after_steps(stand_still))
    for slot in range(2):
        job.wait_for("steps done", slot)
    assert [ended.code for ended in job.wait(1.0)] == [-9, -9]
