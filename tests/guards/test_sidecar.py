"""Jobs whose launcher does nothing: the keepers end them, and leave healthy ones alone."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist
from guards.acquainted import alive, formed, run_kept, start_kept, wait_for_stop, wait_until_reaped
from guards.job import Gate, start
from sidecar import kept_job
from sidecar.kept_job import (
    IN_ALL_S,
    LONG,
    rank,
    swallow_sigterm,
    train,
    wait_and_check,
    wait_for_end,
    waiting_outside,
)

import chaoskit
from chaoskit import guards
from chaoskit.guards import sidecar as guard_sidecar
from chaoskit.guards.sidecar import Sidecar
from chaoskit.sidecar.keeper import Watcher

ROOT = str(Path(chaoskit.__file__).parents[1])


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_ends_the_whole_job(victim: int) -> None:
    job, all_know = start_kept(waiting_outside, LONG)
    ranks = formed(job, all_know)
    killed = time.monotonic()
    os.kill(ranks[victim], signal.SIGKILL)
    ended = wait_and_check(job, ranks, killed)
    for slot, end in enumerate(ended):
        assert f"guard sidecar: rank {victim} (host " in end.err
        assert "was ended by SIGKILL" in end.err
        assert end.code == (-9 if slot == victim else 90)
        assert slot == victim or f"ending rank {slot} (exit 90)" in end.err


def test_ranks_that_notice_a_lost_peer_themselves_may_end_by_that() -> None:
    job, all_know = start_kept(lambda: train(5000), LONG)
    ranks = formed(job, all_know)
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    first, second, third = wait_and_check(job, ranks, killed)
    assert second.code == -9
    assert {first.code, third.code} <= {90, 1}


@pytest.mark.timeout(300)
def test_an_interpreter_that_is_slow_to_end_is_not_taken_for_a_held_gil(tmp_path: Path) -> None:
    script, profile = tmp_path / "train.py", tmp_path / "own.yaml"
    script.write_text(
        "import sys, time\n"
        "class Slow:\n"
        "    def __del__(self, sleep=time.sleep): sleep(6)\n"
        "sys.kept_to_the_end = Slow()\n"
        "raise ValueError('own')\n"
    )
    profile.write_text("name: own\nguards:\n  sidecar: {gil_wait: 5s}\n")
    env = {**os.environ, "PYTHONPATH": ROOT, "RANK": "0", "WORLD_SIZE": "1"}
    command = [sys.executable, "-m", "chaoskit.guards", "--profile", str(profile), str(script)]
    started = time.monotonic()
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert time.monotonic() - started > 6
    assert (done.returncode, "sidecar: rank" in done.stderr) == (1, False), done.stderr


def test_without_the_guard_the_others_wait_for_a_killed_rank() -> None:
    job = start(waiting_outside, ranks=2)
    for slot in range(2):
        job.wait_for("formed", slot)
    os.kill(job.pids[1], signal.SIGKILL)
    wait_for_end(job.pids[1])
    assert [end.code for end in job.wait(0.5)] == [-9, -9]


def test_an_exception_on_one_rank_ends_the_others_and_keeps_its_own_code() -> None:
    failing = Gate()

    def main() -> None:
        train(0)
        if rank() == 1:
            failing.wait()
            raise ValueError("own")
        time.sleep(600)

    job, all_know = start_kept(main, LONG)
    all_know.wait()
    failing.open()
    first, second, third = job.wait()
    assert (first.code, second.code, third.code) == (90, 1, 90)
    assert "rank 1 (host " in third.err
    assert "ended with exit code 1; ending rank 2 (exit 90)" in third.err


class Late(Watcher):
    """Rank 1's keeper, which gets no core until ``has_one`` is open."""

    def __init__(self, has_one: Gate) -> None:
        self._has_one = has_one

    def started(self, pid: int, t: float) -> None:
        if os.environ["RANK"] == "1":
            self._has_one.wait()


def test_a_rank_is_not_ended_because_rank_0_was_done_before_its_keeper_had_a_core() -> None:
    has_one, may_end = Gate(), Gate()

    def main() -> None:
        train(0)
        if rank() == 1:
            may_end.wait()

    job = kept_job.start_kept(main, LONG, ranks=2, watchers=[Late(has_one)])
    first, _ = ranks = kept_job.formed(job)
    wait_until_reaped(first)
    has_one.open()
    time.sleep(1.0)  # nothing may happen
    assert alive(ranks[1:])
    may_end.open()
    assert [(end.code, end.err.count("lost")) for end in job.wait()] == [(0, 0), (0, 0)]


def test_a_rank_whose_keeper_met_nobody_goes_on() -> None:
    """Rank 0 was done, and its keeper about to end, when this one connected."""

    def main() -> None:
        protection = guard_sidecar._here.protection
        assert protection is not None
        with socket.create_server(("127.0.0.1", 0)) as server:
            connection = socket.create_connection(server.getsockname())
            server.accept()[0].close()
        with connection:
            protection.hand_over(connection, "token")
        time.sleep(1.0)  # nothing may happen

    (ended,) = kept_job.start_kept(main, LONG, ranks=1, env={0: {"RANK": "1", "WORLD_SIZE": "2"}}).wait()
    assert (ended.code, "lost" in ended.err) == (0, False), ended.err


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_rank_ends_the_job_after_its_wait(victim: int) -> None:
    job, all_know = start_kept(waiting_outside, Sidecar(stopped_wait_s=0.5), ranks=2)
    ranks = formed(job, all_know)
    stopped = time.monotonic()
    os.kill(ranks[victim], signal.SIGSTOP)
    ended = wait_and_check(job, ranks, stopped, 0.5 + IN_ALL_S)
    assert [end.code for end in ended] == [90, 90]
    assert f"rank {victim} (host " in ended[1 - victim].err
    assert "has been stopped for 0.5 s" in ended[1 - victim].err


def test_a_job_stopped_as_a_whole_is_left_alone() -> None:
    going_on = Gate()

    def main() -> None:
        train(0)
        going_on.wait()

    # The waits: a loaded machine must not use them up between two of the signals.
    job, all_know = start_kept(main, Sidecar(stopped_wait_s=4, gil_wait_s=4), ranks=2)
    ranks = formed(job, all_know)
    for pid in ranks:
        os.kill(pid, signal.SIGSTOP)
    wait_for_stop(ranks)
    time.sleep(5.0)  # what must not happen has no event
    wait_for_stop(ranks, 0.0)
    for pid in ranks:
        os.kill(pid, signal.SIGCONT)
    going_on.open(2)
    for end in job.wait():
        assert (end.code, "ending" in end.err) == (0, False), end.err


def test_a_job_stopped_with_its_keepers_is_left_alone() -> None:
    """As a scheduler suspends a job: every process of it."""
    going_on = Gate()

    def main() -> None:
        train(0)
        going_on.wait()

    # The waits: a loaded machine must not use them up between two of the signals.
    job, all_know = start_kept(main, Sidecar(stopped_wait_s=4, gil_wait_s=4, silent_s=4), ranks=2)
    everything = [*job.pids, *formed(job, all_know)]
    for pid in everything:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(5.0)  # what must not happen has no event
    for pid in everything:
        os.kill(pid, signal.SIGCONT)
    going_on.open(2)
    for end in job.wait():
        assert (end.code, "ending" in end.err) == (0, False), end.err


def test_a_held_gil_ends_the_job() -> None:
    def main() -> None:
        train(0)
        if rank() == 1:
            ctypes.PyDLL(None).usleep(300_000_000)
        time.sleep(300)

    # Long enough for the other rank, which a loaded machine may hold up.
    job, all_know = start_kept(main, Sidecar(gil_wait_s=4), ranks=2)
    ranks = formed(job, all_know)
    ended = wait_and_check(job, ranks, time.monotonic(), 4.5 + IN_ALL_S)
    assert [end.code for end in ended] == [90, 90]
    assert "rank 1 (host " in ended[0].err
    assert "has run no Python for 4 s (something holds the GIL)" in ended[0].err


def test_a_declared_phase_may_hold_the_gil() -> None:
    def main() -> None:
        train(0)
        with guards.phase("native", 30):
            ctypes.PyDLL(None).usleep(5_500_000)

    for end in run_kept(main, Sidecar(gil_wait_s=4), ranks=2):
        assert end.code == 0, end.err


def test_a_swallowed_sigterm_ends_the_job() -> None:
    def main() -> None:
        swallow_sigterm()
        waiting_outside()

    job, all_know = start_kept(main, Sidecar(sigterm_wait_s=0.5), ranks=2)
    ranks = formed(job, all_know)
    told = time.monotonic()
    os.kill(job.pids[1], signal.SIGTERM)
    ended = wait_and_check(job, ranks, told, 0.5 + 0.5 + IN_ALL_S)
    assert [end.code for end in ended] == [90, 90]
    assert "rank 1 (host " in ended[0].err
    assert "got SIGTERM 0.5 s ago and is still there" in ended[0].err


def test_ranks_that_save_after_a_sigterm_to_all_are_given_time() -> None:
    def main() -> None:
        def save(*_: object) -> None:
            time.sleep(0.2 + rank())  # the first is done long before the last
            os._exit(143)

        signal.signal(signal.SIGTERM, save)
        waiting_outside()

    job, all_know = start_kept(main, Sidecar(sigterm_wait_s=30), ranks=2)
    formed(job, all_know)
    for pid in job.pids:
        os.kill(pid, signal.SIGTERM)
    assert [end.code for end in job.wait()] == [143, 143]


def leaving(how: str) -> None:
    train(0)
    if rank() == 1:
        if how == "destroyed":
            dist.destroy_process_group()
        if how == "finished":
            guards.finished()
        if how != "returns":
            os._exit(0)
        return
    time.sleep(2 if how != "early" else 600)


def test_an_early_exit_ends_the_job_after_its_wait() -> None:
    ended = run_kept(lambda: leaving("early"), Sidecar(early_exit_wait_s=0.5), ranks=2)
    assert [end.code for end in ended] == [90, 0]
    assert "rank 1 (host " in ended[0].err
    assert "left with exit 0 before its work was done" in ended[0].err


@pytest.mark.parametrize("how", ["returns", "destroyed", "finished"])
def test_a_rank_that_is_done_first_may_leave(how: str) -> None:
    for end in run_kept(lambda: leaving(how), Sidecar(early_exit_wait_s=0.3), ranks=2):
        assert end.code == 0, end.err


def test_rank_0_may_be_done_first_and_a_later_death_still_ends_the_rest() -> None:
    done = Gate()

    def main() -> None:
        train(0)
        if rank() == 0:
            done.wait()
        else:
            time.sleep(600)

    job, all_know = start_kept(main, LONG)
    ranks = formed(job, all_know)
    done.open()
    wait_until_reaped(ranks[0])
    os.kill(ranks[2], signal.SIGKILL)
    assert [end.code for end in job.wait()] == [0, 90, -9]


def test_a_healthy_job_says_nothing_and_completes() -> None:
    first, second, third = run_kept(lambda: train(10), LONG)
    assert (first.code, second.code, third.code) == (0, 0, 0)
    assert second.err == third.err == ""
    assert first.err.startswith("chaoskit: guard sidecar: armed (keeper=")
    assert first.err.count("\n") == 1


def test_everything_below_a_lost_jobs_ranks_is_ended() -> None:
    def main() -> None:
        train(0)
        swallow_sigterm()
        if rank() == 0:
            context = multiprocessing.get_context("fork")
            context.Process(target=time.sleep, args=(600,)).start()
            daemon = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
            )
            print("below", daemon.pid, flush=True)
        time.sleep(600)

    job, all_know = start_kept(main, LONG, ranks=2)
    ranks = formed(job, all_know)
    job.wait_for("below", 0)
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    ended = wait_and_check(job, ranks, killed)
    assert ended[0].code == 90
    wait_for_end(int(ended[0].out.split()[-1]))


def test_in_a_script_that_installs_guards_itself_it_is_not_in_effect() -> None:
    first, _ = start(lambda: train(1), LONG).wait()
    assert (first.code, first.err) == (0, "chaoskit: guard sidecar: not applicable here\n")


def test_another_program_in_the_ranks_place_is_left_alone() -> None:
    """An exec loses the memory that the rank tells its keeper through."""

    def main() -> None:
        train(0)
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(5.5)"])

    for end in run_kept(main, Sidecar(gil_wait_s=4), ranks=2):
        assert end.code == 0, end.err
