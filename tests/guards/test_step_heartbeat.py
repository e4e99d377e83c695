"""A rank that completes no step ends, with its stacks, however busy it is; one that steps does not."""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from guards.job import start

from chaoskit import guards
from chaoskit.guards.step_heartbeat import StepHeartbeat

# `timeout_s` counts from the first step: here that is right before what is tried, as a loaded machine must
# not use it up by itself.
GUARD = StepHeartbeat(timeout_s=1.5, start_s=40.0)


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


def exchange_without_end() -> None:
    while True:
        dist.all_reduce(torch.ones(4))


@pytest.mark.parametrize("rest", [stand_still, exchange_without_end])
def test_a_rank_that_completes_no_step_says_so_with_its_stacks(rest: Callable[[], None]) -> None:
    ended = start(after_steps(rest), GUARD).wait()
    # With messages between them the first to end takes the other along.
    fired = [rank for rank in ended if rank.code == -43]
    assert fired, ended
    for rank in fired:
        assert "guard step_heartbeat: rank" in rank.err
        stood = re.search(r"no step completed for (\d+\.\d) s \(step 3, ", rank.err)
        assert stood is not None, rank.err
        assert float(stood[1]) >= 1.5
        assert f"in {rest.__name__}" in rank.err


def test_a_rank_that_holds_the_gil_is_ended_too_and_the_dump_says_why() -> None:
    for ended in start(after_steps(hold_the_gil), GUARD).wait():
        assert ended.code == -43
        assert 'File "chaoskit: guard step_heartbeat: no step completed for 1.5 s' in ended.err
        assert "in hold_the_gil" in ended.err


def test_until_the_first_step_start_applies() -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        exchange_without_end()

    began = time.monotonic()
    ended = start(run, StepHeartbeat(timeout_s=0.1, start_s=1.0)).wait()
    assert -43 in [rank.code for rank in ended]
    assert time.monotonic() - began > 1.0


def test_a_declared_phase_extends_and_then_ends() -> None:
    def run() -> None:
        with guards.phase("checkpoint", 40):
            time.sleep(2.5)
        print("saved")
        stand_still()

    for ended in start(after_steps(run), GUARD).wait():
        assert ended.code == -43
        assert "saved" in ended.out


def test_steps_keep_it_quiet_beside_the_watchdog() -> None:
    from chaoskit.guards.progress_watchdog import ProgressWatchdog

    def run() -> None:
        dist.init_process_group("gloo")
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], 0.1)
        for _ in range(24):
            time.sleep(0.2)
            optimizer.step()
        with guards.phase("the other's end", 60):
            dist.barrier()

    both = (StepHeartbeat(timeout_s=4.0, start_s=40.0), ProgressWatchdog(timeout_s=4.0, start_s=40.0))
    ended = start(run, *both).wait()
    assert [rank.code for rank in ended] == [0, 0], [rank.err for rank in ended]


def test_without_it_messages_go_on_for_good() -> None:
    job = start(after_steps(exchange_without_end))
    for slot in range(2):
        job.wait_for("steps done", slot)
    assert [ended.code for ended in job.wait(1.0)] == [-9, -9]
