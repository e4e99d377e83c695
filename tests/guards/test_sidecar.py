"""Jobs whose launcher does nothing: the keepers end them, and leave healthy ones alone."""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch.distributed as dist
from guards.job import Ended, Job, start
from sidecar.kept_job import fill, rank, rank_of, start_kept, state, swallow_sigterm, train, wait_for_end

import chaoskit
from chaoskit import guards
from chaoskit.guards.sidecar import Sidecar, identity
from chaoskit.sidecar import protection
from chaoskit.sidecar.links import Message

ROOT = str(Path(chaoskit.__file__).parents[1])
LONG = Sidecar(early_exit_wait_s=60, stopped_wait_s=60, gil_wait_s=60, sigterm_wait_s=60)
IN_ALL_S = 10.0
"""From the death or the detection to the end of the last keeper: far below what the script would wait, and
generous for a loaded machine. benchmarks/sidecar.py measures it."""


def waiting_outside() -> None:
    """Form the group, then wait where no lost peer is noticed, as a rank under NCCL would."""
    train(0)
    time.sleep(60)


def formed(job: Job) -> list[int]:
    """Wait until every rank has formed the group; return their pids."""
    for slot in range(len(job.pids)):
        job.wait_for("formed", slot)
    return [rank_of(keeper) for keeper in job.pids]


def wait_and_check(job: Job, ranks: list[int], since: float, within_s: float = IN_ALL_S) -> list[Ended]:
    """Wait for the end of the job; check that it came in time and left no rank."""
    ended = job.wait(within_s + 10)
    for pid in ranks:
        wait_for_end(pid)
    last = max(end.after_s for end in ended)
    assert last - (since - job.started) < within_s, [(e.code, e.after_s, e.err) for e in ended]
    return ended


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_ends_the_whole_job(victim: int) -> None:
    job = start_kept(waiting_outside, LONG)
    ranks = formed(job)
    killed = time.monotonic()
    os.kill(ranks[victim], signal.SIGKILL)
    ended = wait_and_check(job, ranks, killed)
    for slot, end in enumerate(ended):
        assert f"guard sidecar: rank {victim} (host " in end.err
        assert "was ended by SIGKILL" in end.err
        assert end.code == (-9 if slot == victim else 90)
        assert slot == victim or f"ending rank {slot} (exit 90)" in end.err


def test_ranks_that_notice_a_lost_peer_themselves_may_end_by_that() -> None:
    job = start_kept(lambda: train(2000), LONG)
    ranks = formed(job)
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    first, second, third = wait_and_check(job, ranks, killed)
    assert second.code == -9
    assert {first.code, third.code} <= {90, 1}


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_keeper_ends_the_whole_job(victim: int) -> None:
    job = start_kept(waiting_outside, LONG)
    ranks = formed(job)
    killed = time.monotonic()
    os.kill(job.pids[victim], signal.SIGKILL)
    ended = wait_and_check(job, ranks, killed)
    assert [end.code for end in ended] == [-9 if slot == victim else 90 for slot in range(3)]
    other = ended[1]
    assert f"rank {victim} (host " in other.err
    assert "its keeper was killed or its host is gone" in other.err


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_keeper_on_this_host_has_the_wait_of_a_stopped_rank(victim: int) -> None:
    job = start_kept(waiting_outside, Sidecar(silent_s=2, stopped_wait_s=5), ranks=2)
    ranks = formed(job)
    time.sleep(1.0)  # the keepers know each other now
    os.kill(job.pids[victim], signal.SIGSTOP)
    time.sleep(3.5)  # what must not happen has no event
    assert [state(pid) for pid in ranks] == ["S", "S"]
    os.kill(job.pids[victim], signal.SIGCONT)
    time.sleep(1.0)  # it is heard again
    assert [state(pid) for pid in ranks] == ["S", "S"]
    again = time.monotonic()
    os.kill(job.pids[victim], signal.SIGSTOP)
    ended = job.wait(15, kill=[victim])
    assert ended[1 - victim].after_s + job.started - again > 3.5
    assert ended[1 - victim].code == 90
    assert "has a keeper that has been stopped for 5 s" in ended[1 - victim].err
    wait_for_end(ranks[victim])


@pytest.mark.parametrize("victim", [0, 1])
def test_a_keeper_that_falls_silent_ends_the_others(victim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: f"host-{os.environ['RANK']}")  # another host, to them
    job = start_kept(waiting_outside, Sidecar(silent_s=2), ranks=2)
    formed(job)
    os.kill(job.pids[victim], signal.SIGSTOP)
    ended = job.wait(10, kill=[victim])
    assert ended[1 - victim].code == 90
    assert f"rank {victim} (host " in ended[1 - victim].err
    assert "cannot be reached: nothing heard of its host for 2 s" in ended[1 - victim].err


def test_ranks_on_several_hosts_meet_on_any_interface() -> None:
    env = {slot: {"LOCAL_WORLD_SIZE": "1"} for slot in range(2)}
    job = start_kept(waiting_outside, LONG, ranks=2, env=env)
    ranks = formed(job)
    listening = {
        c.laddr.ip for c in psutil.Process(job.pids[0]).net_connections("tcp") if c.status == "LISTEN"
    }
    assert listening <= {"::", "0.0.0.0"}
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    assert [end.code for end in wait_and_check(job, ranks, killed)] == [90, -9]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, (-1, -1, False)),
        ({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost"}, (1, 4, True)),
        ({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "node7"}, (1, 4, False)),
        ({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "node7", "LOCAL_WORLD_SIZE": "4"}, (1, 4, True)),
        (
            {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "LOCAL_WORLD_SIZE": "2"},
            (1, 4, False),
        ),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}, (3, 8, False)),
        ({"RANK": "0", "WORLD_SIZE": "2", "SLURM_PROCID": "3", "SLURM_NTASKS": "8"}, (0, 2, False)),
        (
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            (1, 2, True),
        ),
    ],
)
def test_a_rank_is_known_by_its_launchers_variables(
    env: dict[str, str], expected: tuple[int, int, bool]
) -> None:
    me = identity(env)
    assert (me.rank, me.world_size, me.this_host_only) == expected


def test_ranks_that_only_srun_has_named_meet_as_well() -> None:
    def main() -> None:
        os.environ.update(RANK=os.environ["SLURM_PROCID"], WORLD_SIZE=os.environ["SLURM_NTASKS"])
        waiting_outside()

    names = {"RANK": None, "WORLD_SIZE": None, "LOCAL_RANK": None, "SLURM_NTASKS": "2"}
    job = start_kept(main, LONG, ranks=2, env={n: {**names, "SLURM_PROCID": str(n)} for n in range(2)})
    ranks = formed(job)
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    assert [end.code for end in wait_and_check(job, ranks, killed)] == [90, -9]


def test_who_does_not_know_the_token_is_not_heard() -> None:
    job = start_kept(waiting_outside, LONG, ranks=2)
    ranks = formed(job)
    (port,) = {
        c.laddr.port for c in psutil.Process(job.pids[0]).net_connections("tcp") if c.status == "LISTEN"
    }
    lost = Message("lost", 1, why="is no more").to_bytes("another token")
    deep, typed = b"[" * 4000, json.dumps({"kind": "hello", "rank": 1, "token": 5}).encode()
    framed = [struct.pack("!I", len(body)) + body for body in (deep, typed, b"{}")]
    for junk in (*framed, b"GET / HTTP/1.1\r\n\r\n", lost):
        with socket.create_connection(("127.0.0.1", port), 5) as stranger:
            stranger.sendall(junk)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b"", "it is hung up on"
    waiting = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(80)]
    assert waiting[0].recv(1) == b"", "so many at once: the first has to go"
    assert [state(pid) for pid in ranks] == ["S", "S"]
    os.kill(ranks[1], signal.SIGKILL)
    ended = wait_and_check(job, ranks, time.monotonic())
    assert [end.code for end in ended] == [90, -9]
    assert "Traceback" not in ended[0].err
    for stranger in waiting:
        stranger.close()


def test_a_connection_that_never_shows_the_token_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection, "_STRANGER_S", 0.5)
    job = start_kept(waiting_outside, LONG, ranks=2)
    ranks = formed(job)
    (port,) = {
        c.laddr.port for c in psutil.Process(job.pids[0]).net_connections("tcp") if c.status == "LISTEN"
    }
    with socket.create_connection(("127.0.0.1", port), 10) as stranger:
        stranger.sendall(b"\0")
        assert stranger.recv(1) == b""
    assert [state(pid) for pid in ranks] == ["S", "S"], "who has shown it stays"
    job.wait(0, kill=[0, 1])


def test_a_full_stderr_that_nobody_reads_keeps_nobody_from_ending_the_job() -> None:
    reader, writer = os.pipe()
    job = start_kept(waiting_outside, LONG, stderr=writer)
    ranks = formed(job)
    fill(writer)
    killed = time.monotonic()
    os.kill(ranks[2], signal.SIGKILL)
    assert [end.code for end in wait_and_check(job, ranks, killed)] == [90, 90, -9]
    os.close(writer)
    os.close(reader)


@pytest.mark.parametrize("victim", [0, 2])
# A keeper that has to end its rank first has 0.3 s of advance: less than a loaded machine may take from it.
@pytest.mark.parametrize("how", ["killed", pytest.param("swallows", marks=pytest.mark.nightly)])
def test_the_keeper_of_the_lost_rank_leaves_first(how: str, victim: int) -> None:
    """A launcher names the rank that it sees end first."""

    def main() -> None:
        if rank() == victim:
            swallow_sigterm()
        waiting_outside()

    job = start_kept(main, Sidecar(sigterm_wait_s=0.5))
    ranks = formed(job)
    if how == "killed":
        os.kill(ranks[victim], signal.SIGKILL)
    else:
        os.kill(job.pids[victim], signal.SIGTERM)
    ended = wait_and_check(job, ranks, time.monotonic())
    assert ended[victim].code == (-9 if how == "killed" else 90)
    others = [end.after_s for slot, end in enumerate(ended) if slot != victim]
    assert min(others) > ended[victim].after_s, [(end.code, end.after_s) for end in ended]


def test_an_interpreter_that_is_slow_to_end_is_not_taken_for_a_held_gil(tmp_path: Path) -> None:
    script, profile = tmp_path / "train.py", tmp_path / "own.yaml"
    script.write_text(
        "import sys, time\n"
        "class Slow:\n"
        "    def __del__(self, sleep=time.sleep): sleep(4)\n"
        "sys.kept_to_the_end = Slow()\n"
        "raise ValueError('own')\n"
    )
    profile.write_text("name: own\nguards:\n  sidecar: {gil_wait: 2s}\n")
    env = {**os.environ, "PYTHONPATH": ROOT, "RANK": "0", "WORLD_SIZE": "1"}
    command = [sys.executable, "-m", "chaoskit.guards", "--profile", str(profile), str(script)]
    started = time.monotonic()
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert time.monotonic() - started > 4
    assert (done.returncode, "sidecar: rank" in done.stderr) == (1, False), done.stderr


def test_without_the_guard_the_others_wait_for_a_killed_rank() -> None:
    job = start(waiting_outside, ranks=2)
    for slot in range(2):
        job.wait_for("formed", slot)
    os.kill(job.pids[1], signal.SIGKILL)
    wait_for_end(job.pids[1])
    assert state(job.pids[0]) == "S"
    job.wait(0.5)


def test_an_exception_on_one_rank_ends_the_others_and_keeps_its_own_code() -> None:
    def main() -> None:
        train(0)
        if rank() == 1:
            raise ValueError("own")
        time.sleep(60)

    first, second, third = start_kept(main, LONG).wait(30)
    assert (first.code, second.code, third.code) == (90, 1, 90)
    assert "rank 1 (host " in third.err
    assert "ended with exit code 1; ending rank 2 (exit 90)" in third.err


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_rank_ends_the_job_after_its_wait(victim: int) -> None:
    job = start_kept(waiting_outside, Sidecar(stopped_wait_s=0.5), ranks=2)
    ranks = formed(job)
    stopped = time.monotonic()
    os.kill(ranks[victim], signal.SIGSTOP)
    ended = wait_and_check(job, ranks, stopped, 0.5 + IN_ALL_S)
    assert [end.code for end in ended] == [90, 90]
    assert f"rank {victim} (host " in ended[1 - victim].err
    assert "has been stopped for 0.5 s" in ended[1 - victim].err


def test_a_job_stopped_as_a_whole_is_left_alone() -> None:
    job = start_kept(lambda: train(30), Sidecar(stopped_wait_s=0.3, gil_wait_s=2), ranks=2)
    ranks = formed(job)
    for pid in ranks:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(1.5)  # what must not happen has no event
    assert [state(pid) for pid in ranks] == ["T", "T"]
    for pid in ranks:
        os.kill(pid, signal.SIGCONT)
    for end in job.wait(30):
        assert (end.code, "ending" in end.err) == (0, False), end.err


def test_a_job_stopped_with_its_keepers_is_left_alone() -> None:
    """As a scheduler suspends a job: every process of it."""
    job = start_kept(lambda: train(30), Sidecar(stopped_wait_s=0.5, gil_wait_s=2, silent_s=2), ranks=2)
    everything = [*job.pids, *formed(job)]
    for pid in everything:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(2.5)  # what must not happen has no event
    for pid in everything:
        os.kill(pid, signal.SIGCONT)
    for end in job.wait(30):
        assert (end.code, "ending" in end.err) == (0, False), end.err


def test_a_held_gil_ends_the_job() -> None:
    def main() -> None:
        train(0)
        if rank() == 1:
            ctypes.PyDLL(None).usleep(30_000_000)
        time.sleep(30)

    job = start_kept(main, Sidecar(gil_wait_s=2), ranks=2)
    ranks = formed(job)
    ended = wait_and_check(job, ranks, time.monotonic(), 2.5 + IN_ALL_S)
    assert [end.code for end in ended] == [90, 90]
    assert "rank 1 (host " in ended[0].err
    assert "has run no Python for 2 s (something holds the GIL)" in ended[0].err


def test_a_declared_phase_may_hold_the_gil() -> None:
    def main() -> None:
        train(0)
        with guards.phase("native", 30):
            ctypes.PyDLL(None).usleep(3_500_000)

    for end in start_kept(main, Sidecar(gil_wait_s=2), ranks=2).wait(30):
        assert end.code == 0, end.err


def test_a_swallowed_sigterm_ends_the_job() -> None:
    def main() -> None:
        swallow_sigterm()
        waiting_outside()

    job = start_kept(main, Sidecar(sigterm_wait_s=0.5), ranks=2)
    ranks = formed(job)
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

    job = start_kept(main, Sidecar(sigterm_wait_s=10), ranks=2)
    formed(job)
    for pid in job.pids:
        os.kill(pid, signal.SIGTERM)
    assert [end.code for end in job.wait(30)] == [143, 143]


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
    time.sleep(2 if how != "early" else 60)


def test_an_early_exit_ends_the_job_after_its_wait() -> None:
    ended = start_kept(lambda: leaving("early"), Sidecar(early_exit_wait_s=0.5), ranks=2).wait(30)
    assert [end.code for end in ended] == [90, 0]
    assert "rank 1 (host " in ended[0].err
    assert "left with exit 0 before its work was done" in ended[0].err


@pytest.mark.parametrize("how", ["returns", "destroyed", "finished"])
def test_a_rank_that_is_done_first_may_leave(how: str) -> None:
    for end in start_kept(lambda: leaving(how), Sidecar(early_exit_wait_s=0.3), ranks=2).wait(30):
        assert end.code == 0, end.err


def test_rank_0_may_be_done_first_and_a_later_death_still_ends_the_rest() -> None:
    def main() -> None:
        train(0)
        if rank() == 2:
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
        elif rank() == 1:
            time.sleep(60)

    ended = start_kept(main, LONG).wait(30)
    assert [end.code for end in ended] == [0, 90, -9]


def test_a_healthy_job_says_nothing_and_completes() -> None:
    first, second, third = start_kept(lambda: train(10), LONG).wait(30)
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
            context.Process(target=time.sleep, args=(60,)).start()
            daemon = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
            )
            print("below", daemon.pid, flush=True)
        time.sleep(60)

    job = start_kept(main, LONG, ranks=2)
    ranks = formed(job)
    job.wait_for("below", 0)
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    ended = wait_and_check(job, ranks, killed)
    assert ended[0].code == 90
    wait_for_end(int(ended[0].out.split()[-1]))


def test_a_rank_lost_while_the_group_forms_ends_those_that_came() -> None:
    def main() -> None:
        if rank() == 2:
            time.sleep(60)  # so the group never forms
        train(0)

    job = start_kept(main, LONG)
    until = time.monotonic() + 10
    while not _connected(job.pids[1]):
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(rank_of(job.pids[1]), signal.SIGKILL)
    first, second, third = job.wait(8, kill=[2])
    assert (first.code, second.code) == (90, -9), (first.err, third.err)


def _connected(keeper: int) -> bool:
    """Has its rank handed it a connection?"""
    return any(c.status == "ESTABLISHED" for c in psutil.Process(keeper).net_connections("tcp"))


def test_the_keepers_meet_beside_the_census_and_in_a_store_of_the_scripts_own() -> None:
    from chaoskit.guards.census import Census

    def main() -> None:
        waiting_outside()

    def own_store() -> None:
        store = dist.FileStore(os.environ["OWN_STORE"], 2)
        dist.init_process_group("gloo", store=store, rank=rank(), world_size=2)
        print("formed", flush=True)
        time.sleep(60)

    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        env = {slot: {"OWN_STORE": f"{folder}/store"} for slot in range(2)}
        jobs = start_kept(main, LONG, Census(), ranks=2), start_kept(own_store, LONG, ranks=2, env=env)
        for job in jobs:
            ranks = formed(job)
            killed = time.monotonic()
            os.kill(ranks[1], signal.SIGKILL)
            assert wait_and_check(job, ranks, killed)[0].code == 90


def test_in_a_script_that_installs_guards_itself_it_is_not_in_effect() -> None:
    first, _ = start(lambda: train(1), LONG).wait()
    assert (first.code, first.err) == (0, "chaoskit: guard sidecar: not applicable here\n")


def test_another_program_in_the_ranks_place_is_left_alone() -> None:
    """An exec loses the memory that the rank tells its keeper through."""

    def main() -> None:
        train(0)
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(3.5)"])

    for end in start_kept(main, Sidecar(gil_wait_s=2), ranks=2).wait(30):
        assert end.code == 0, end.err
