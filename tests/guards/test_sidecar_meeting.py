"""How the keepers of a job find each other, and whom they let in."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import time

import psutil
import pytest
import torch.distributed as dist
from guards.acquainted import alive, formed, start_kept
from sidecar.kept_job import (
    LONG,
    rank,
    rank_of,
    train,
    wait_and_check,
    waiting_outside,
)

from chaoskit.guards import sidecar_meeting
from chaoskit.guards.sidecar import identity
from chaoskit.sidecar import door
from chaoskit.sidecar.links import Message


def test_ranks_on_several_hosts_meet_on_any_interface() -> None:
    env = {slot: {"LOCAL_WORLD_SIZE": "1"} for slot in range(2)}
    job, all_know = start_kept(waiting_outside, LONG, ranks=2, env=env)
    ranks = formed(job, all_know)
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
    job, all_know = start_kept(
        main, LONG, ranks=2, env={n: {**names, "SLURM_PROCID": str(n)} for n in range(2)}
    )
    ranks = formed(job, all_know)
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    assert [end.code for end in wait_and_check(job, ranks, killed)] == [90, -9]


def test_who_does_not_know_the_token_is_not_heard() -> None:
    job, all_know = start_kept(waiting_outside, LONG, ranks=2)
    ranks = formed(job, all_know)
    (port,) = {
        c.laddr.port for c in psutil.Process(job.pids[0]).net_connections("tcp") if c.status == "LISTEN"
    }
    lost = Message("lost", 1, why="is no more").to_bytes("another token")
    deep, typed = b"[" * 4000, json.dumps({"kind": "hello", "rank": 1, "token": 5}).encode()
    framed = [struct.pack("!I", len(body)) + body for body in (deep, typed, b"{}")]
    for junk in (*framed, b"GET / HTTP/1.1\r\n\r\n", lost):
        with socket.create_connection(("127.0.0.1", port), 60) as stranger:
            stranger.sendall(junk)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b"", "it is hung up on"
    waiting = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(80)]
    assert waiting[0].recv(1) == b"", "so many at once: the first has to go"
    assert alive(ranks)
    os.kill(ranks[1], signal.SIGKILL)
    ended = wait_and_check(job, ranks, time.monotonic())
    assert [end.code for end in ended] == [90, -9]
    assert "Traceback" not in ended[0].err
    for stranger in waiting:
        stranger.close()


def test_a_connection_that_never_shows_the_token_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_STRANGER_S", 4.0)  # time for the keeper of rank 1
    job, all_know = start_kept(waiting_outside, LONG, ranks=2)
    ranks = formed(job, all_know)
    (port,) = {
        c.laddr.port for c in psutil.Process(job.pids[0]).net_connections("tcp") if c.status == "LISTEN"
    }
    with socket.create_connection(("127.0.0.1", port), 60) as stranger:
        stranger.sendall(b"\0")
        assert stranger.recv(1) == b""
    assert alive(ranks), "who has shown it stays"
    job.wait(0, kill=[0, 1])


def test_a_rank_lost_while_the_group_forms_ends_those_that_came() -> None:
    def main() -> None:
        if rank() == 2:
            time.sleep(600)  # so the group never forms
        train(0)

    job, _ = start_kept(main, LONG)
    until = time.monotonic() + 45
    while not _connected(job.pids[1]):
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(rank_of(job.pids[1]), signal.SIGKILL)
    first, second, third = job.wait(kill=[2])
    assert (first.code, second.code) == (90, -9), (first.err, third.err)


def _connected(keeper: int) -> bool:
    """Has its rank handed it a connection?"""
    return any(c.status == "ESTABLISHED" for c in psutil.Process(keeper).net_connections("tcp"))


def test_the_keepers_meet_beside_the_census_and_in_a_store_of_the_scripts_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from chaoskit.guards.census import Census

    monkeypatch.setattr(sidecar_meeting, "_SETTLE_S", 30.0)  # a rank 0 that is held up is waited for

    def main() -> None:
        waiting_outside()

    def own_store() -> None:
        store = dist.FileStore(os.environ["OWN_STORE"], 2)
        dist.init_process_group("gloo", store=store, rank=rank(), world_size=2)
        print("formed", flush=True)
        time.sleep(600)

    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        env = {slot: {"OWN_STORE": f"{folder}/store"} for slot in range(2)}
        jobs = start_kept(main, LONG, Census(), ranks=2), start_kept(own_store, LONG, ranks=2, env=env)
        for job, all_know in jobs:
            ranks = formed(job, all_know)
            killed = time.monotonic()
            os.kill(ranks[1], signal.SIGKILL)
            assert wait_and_check(job, ranks, killed)[0].code == 90
