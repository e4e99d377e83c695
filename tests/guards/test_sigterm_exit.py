"""SIGTERM to a rank that sits in a collective, with and without handlers of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from guards.job import Job, start

from chaoskit.guards.sigterm_exit import SigtermExit
from chaoskit.progress import phase

GUARD = SigtermExit(grace_s=0.5)
TOLD: list[int] = []


def flag_handler(number: int, _: object) -> None:
    TOLD.append(number)  # no threading.Event: set() waits for ever where the signal meets wait() half way


def wait_until_told() -> None:
    while not TOLD:
        time.sleep(0.02)


def sit_in_a_collective() -> None:
    dist.init_process_group("gloo")
    dist.barrier()
    print("ready")
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(4))
    threading.Event().wait()


def with_handler(rest: Callable[[], object], handler: object = flag_handler) -> Callable[[], None]:
    def run() -> None:
        signal.signal(signal.SIGTERM, handler)  # type: ignore[arg-type]
        rest()

    return run


def terminated(job: Job) -> Job:
    for slot in range(2):
        job.wait_for("ready", slot)
    os.kill(job.pids[0], signal.SIGTERM)
    return job


def test_a_swallowed_sigterm_ends_the_rank_after_the_grace() -> None:
    first, _ = terminated(start(with_handler(sit_in_a_collective), GUARD)).wait(kill=[1])
    assert first.code == 143
    assert "SIGTERM came 0.5 s ago and the script has not ended (step 0, after barrier #1)" not in first.err
    assert "SIGTERM came 0.5 s ago" in first.err
    assert "in sit_in_a_collective" in first.err


def test_without_it_the_sigterm_is_swallowed() -> None:
    first, _ = terminated(start(with_handler(sit_in_a_collective))).wait(1.5)
    assert first.code == -9


def test_without_a_handler_the_default_action_ends_it_at_once() -> None:
    first, _ = terminated(start(sit_in_a_collective, GUARD)).wait(kill=[1])
    assert first.code == -15


def test_a_handler_that_leaves_within_the_grace_is_respected() -> None:
    def loop() -> None:
        print("ready")
        wait_until_told()
        print("saved")
        sys.exit(3)

    first, _ = terminated(start(with_handler(loop), SigtermExit(grace_s=40.0))).wait(kill=[1])
    assert (first.code, first.out) == (3, "ready\nsaved\n")


def test_ignored_stays_ignored() -> None:
    job = terminated(start(with_handler(sit_in_a_collective, signal.SIG_IGN), SigtermExit(grace_s=0.1)))
    first, _ = job.wait(1.0)
    assert first.code == -9


def test_a_sigterm_to_a_forked_worker_is_none_to_the_rank() -> None:
    def run() -> None:
        print("ready")
        up, told = os.pipe()
        worker = os.fork()
        if worker == 0:
            os.write(told, b"u")
            wait_until_told()  # the inherited handler runs and the worker goes on
            os._exit(5)
        os.read(up, 1)
        os.kill(worker, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 5
        time.sleep(0.5)  # longer than the grace

    job = start(with_handler(run), SigtermExit(grace_s=0.2))
    assert [ended.code for ended in job.wait()] == [0, 0]


def test_a_phase_declared_after_the_sigterm_may_take_its_time() -> None:
    def loop() -> None:
        with phase("routine", 60):
            print("ready")
            wait_until_told()
        with phase("last checkpoint", 60):
            time.sleep(4.5)  # more than the grace
        print("saved")
        time.sleep(60)

    # The grace: a loaded machine must not use it up before the phase begins.
    first, _ = terminated(start(with_handler(loop), SigtermExit(grace_s=3.0))).wait(kill=[1])
    assert (first.code, first.out) == (143, "ready\nsaved\n"), first.err
    assert float(first.err.partition("SIGTERM came ")[2].split()[0]) > 4.5


def test_a_phase_that_was_open_before_allows_nothing() -> None:
    def stuck() -> None:
        with phase("routine", 60):
            sit_in_a_collective()

    first, _ = terminated(start(with_handler(stuck), GUARD)).wait(kill=[1])
    assert first.code == 143
    assert "SIGTERM came 0.5 s ago" in first.err
