"""Wrong launches on real ranks: named in one line, exit 80, on every rank that can know."""

from __future__ import annotations

import ctypes
import os
import socket
import threading

import pytest
import torch.distributed as dist
from guards.job import Ended, Gate, start

from chaoskit.guards import census
from chaoskit.guards.census import Census

CENSUS = Census(wait_s=100.0)
QUICK = Census(wait_s=4.0)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that the machine holds up for seconds is not late, and one that knows does not leave early."""
    for name, seconds in (("_SETTLE_S", 10.0), ("_LINGER_S", 12.0), ("_TELL_S", 20.0), ("_SILENT_S", 8.0)):
        monkeypatch.setattr(census, name, seconds)


def form() -> None:
    dist.init_process_group("gloo")
    dist.barrier()
    dist.destroy_process_group()


def lines(ended: Ended) -> list[str]:
    return [line for line in ended.err.splitlines() if "guard census:" in line and "exit 80" in line]


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({2: {"RANK": "1"}}, "RANK 1 is claimed by 2 processes: pid "),
        ({2: {"RANK": "0"}}, "RANK 0 is claimed by 2 processes: pid "),
        ({1: {"WORLD_SIZE": "2"}}, "rank 1 has WORLD_SIZE 2 where ranks 0, 2 have 3"),
        ({1: {"LOCAL_RANK": None}}, "rank 1 has no LOCAL_RANK where the others have one"),
        ({1: {"RANK": None}}, "RANK is not set"),
        ({1: {"WORLD_SIZE": "three"}}, "WORLD_SIZE is 'three', no number"),
        ({1: {"GLOO_SOCKET_IFNAME": "eth99"}}, "GLOO_SOCKET_IFNAME=eth99: there is no interface 'eth99'"),
        ({0: {"GLOO_SOCKET_IFNAME": "eth99"}}, "rank 0 (pid "),
    ],
    ids=[
        "duplicate",
        "duplicate-0",
        "world-size",
        "local-rank",
        "rank",
        "number",
        "interface",
        "interface-0",
    ],
)
def test_a_wrong_launch_is_named_at_once_on_every_rank(
    env: dict[int, dict[str, str | None]], says: str
) -> None:
    for ended in start(form, CENSUS, ranks=3, env=env).wait():  # not long enough for the wait
        assert ended.code == 80, ended.err
        assert len(lines(ended)) == 1
        assert says in lines(ended)[0]


def test_a_missing_rank_is_named_after_the_wait() -> None:
    env = {slot: {"WORLD_SIZE": "3"} for slot in range(2)}
    for ended in start(form, QUICK, env=env).wait():
        assert ended.code == 80, ended.err
        assert "rank 2 of 3 has not come within 4 s (ranks 0, 1 are here)" in lines(ended)[0]


def test_what_is_known_is_said_though_a_rank_never_comes_to_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census._Roll, "linger", lambda self, seconds: threading.Event().wait())
    env = {slot: {"WORLD_SIZE": "3"} for slot in range(2)}
    for ended in start(form, QUICK, env=env).wait():
        assert ended.code == 80, ended.err
        assert "rank 2 of 3 has not come within 4 s" in lines(ended)[0]
        assert "check what the launcher gives" in lines(ended)[0]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"MASTER_ADDR": "no-such-host.invalid"}, "MASTER_ADDR no-such-host.invalid cannot be resolved"),
        ({"MASTER_PORT": "1"}, "nothing answers at MASTER_ADDR:MASTER_PORT 127.0.0.1:1"),
    ],
    ids=["unresolvable", "refused"],
)
def test_a_wrong_address_is_named_after_the_wait(wrong: dict[str, str | None], says: str) -> None:
    def form_without_dns() -> None:
        # A look-up may take longer than the wait, where a name server does not answer.
        getattr(ctypes.CDLL(None), "__nss_configure_lookup")(b"hosts", b"files")
        form()

    first, second = start(form_without_dns, QUICK, env={1: wrong}).wait()
    assert (first.code, second.code) == (80, 80)
    assert says in lines(second)[0]
    assert "rank 1 of 2 has not come" in lines(first)[0]


def test_a_port_taken_by_another_program_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port: dict[str, str | None] = {"MASTER_PORT": str(other.getsockname()[1])}
        first, second = start(form, QUICK, env={0: port, 1: port}).wait()
    assert (first.code, second.code) == (80, 80)
    assert "is taken on" in lines(first)[0]
    assert "takes connections but does not answer as a store" in lines(second)[0]


def test_a_process_too_many_ends_itself() -> None:
    env: dict[int, dict[str, str | None]] = {slot: {"WORLD_SIZE": "2"} for slot in range(3)}
    ended = start(form, CENSUS, ranks=3, env=env).wait()
    assert ended[2].code == 80
    assert "rank 2 (pid " in lines(ended[2])[0]
    assert [e.code for e in ended[:2]] in ([0, 0], [80, 80])  # 80 where it came before the roll was closed


def test_healthy_jobs_form_and_each_rank_says_who_it_is() -> None:
    again = Gate()

    def twice() -> None:
        form()
        if os.environ["RANK"] == "0":
            again.open()  # its store is gone: nobody takes the old one for the new one
        else:
            again.wait()
        form()

    for slot, ended in enumerate(start(twice, CENSUS).wait()):
        assert ended.code == 0, ended.err
        assert ended.err.count(f"census: rank {slot} of 2, local rank {slot}, pid ") == 2


def test_nobody_with_a_local_rank_is_healthy() -> None:
    env: dict[int, dict[str, str | None]] = {slot: {"LOCAL_RANK": None} for slot in range(2)}
    assert [ended.code for ended in start(form, CENSUS, env=env).wait()] == [0, 0]


def test_a_store_of_the_script_is_used_and_a_file_is_not_applicable(tmp_path: object) -> None:
    def own_store() -> None:
        rank = int(os.environ["RANK"])
        store = dist.FileStore(f"{tmp_path}/store", 2)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
        dist.barrier()  # gloo may still be connecting here when the other rank has gone on
        dist.destroy_process_group()
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/file", rank=rank, world_size=2)
        dist.barrier()
        dist.destroy_process_group()

    ended = start(own_store, CENSUS).wait()
    assert [e.code for e in ended] == [0, 0], ended
    assert "guard census: not applicable here (init_method=file://" in ended[0].err


def test_without_it_a_duplicate_rank_is_not_named() -> None:
    def short() -> None:
        from datetime import timedelta

        dist.init_process_group("gloo", timeout=timedelta(seconds=3))
        dist.barrier()

    ended = start(short, ranks=3, env={2: {"RANK": "1"}}).wait(20.0)
    assert any(e.code != 0 for e in ended)
    assert not any("claimed" in e.err for e in ended)
