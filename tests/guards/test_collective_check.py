"""Ranks that enter different collectives: every rank exits 87, the odd one is named, nothing waits for a
timeout."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from guards.job import Gate, start

from chaoskit.guards import comparing
from chaoskit.guards.collective_check import CollectiveCheck

# Long: nothing waits for it where no rank is missing, and a machine may hold one up for seconds.
CHECK = CollectiveCheck(hold_s=20.0, settle_s=15.0, exit_wait_s=30.0)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who loses a peer waits for the reason, however late it is read."""
    monkeypatch.setattr(comparing, "_LAST_WORD_S", 10.0)


def usual(t: torch.Tensor) -> None:
    dist.all_reduce(t)


def cast(t: torch.Tensor) -> None:
    dist.all_reduce(torch.ones(4, dtype=torch.int32))


def reshape(t: torch.Tensor) -> None:
    dist.all_reduce(torch.ones(2))


def skip(t: torch.Tensor) -> None:
    """Rank 1 goes on to the barrier."""


def extra(t: torch.Tensor) -> None:
    usual(t)
    usual(t)


def swap(t: torch.Tensor) -> None:
    dist.barrier()
    usual(t)


def maximum(t: torch.Tensor) -> None:
    dist.all_reduce(t, op=dist.ReduceOp.MAX)


def loop(guilty: Callable[[torch.Tensor], None], steps: int = 8, at: int = 5) -> Callable[[], None]:
    def run() -> None:
        dist.init_process_group("gloo")
        for step in range(steps):
            t = torch.ones(4)
            guilty(t) if dist.get_rank() == 1 and step == at else usual(t)
            dist.barrier()
        print("result", t[0].item())
        dist.destroy_process_group()

    return run


@pytest.mark.parametrize(
    ("guilty", "says"),
    [
        (
            cast,
            "rank 1 entered all_reduce #6 with int32[4] where ranks 0, 2 entered all_reduce #6 with float32",
        ),
        (reshape, "rank 1 entered all_reduce #6 with float32[2] where ranks 0, 2 entered"),
        (skip, "rank 1 entered barrier #6 where ranks 0, 2 entered all_reduce #6"),
        (extra, "rank 1 entered all_reduce #7 where ranks 0, 2 entered barrier #6"),
        (swap, "rank 1 entered barrier #6 where ranks 0, 2 entered all_reduce #6"),
        (maximum, "rank 1 entered all_reduce #6 with float32[4] where ranks 0, 2 entered"),
    ],
)
def test_the_odd_rank_is_named_and_every_rank_ends(guilty: Callable[[torch.Tensor], None], says: str) -> None:
    for ended in start(loop(guilty), CHECK, ranks=3).wait():
        assert ended.code == 87, ended.err
        assert says in ended.err
        assert "result" not in ended.out


@pytest.mark.parametrize("guilty", [cast, skip])
def test_at_the_very_last_operation_too(guilty: Callable[[torch.Tensor], None]) -> None:
    """Nothing follows that could give it away: what was entered is compared before a rank may exit 0."""

    def run() -> None:
        dist.init_process_group("gloo")
        for step in range(4):
            t = torch.ones(4)
            guilty(t) if dist.get_rank() == 1 and step == 3 else usual(t)
        dist.destroy_process_group()

    for ended in start(run, CHECK).wait():
        assert ended.code == 87, ended.err


def test_without_it_differing_dtypes_are_garbage_and_exit_0() -> None:
    ended = start(loop(cast)).wait()
    assert [e.code for e in ended] == [0, 0]


def test_healthy_subgroups_and_asynchronous_operations_in_any_order_pass() -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        one, two = dist.new_group([0, 1]), dist.new_group([0, 1])
        for _ in range(3):
            # Different order on each rank, legal for asynchronous operations of different groups.
            groups = (one, two) if rank == 0 else (two, one)
            works = [dist.all_reduce(torch.ones(2), group=group, async_op=True) for group in groups]
            for work in works:
                work.wait()
            if rank == 0:
                dist.send(torch.ones(1), 1)
            else:
                dist.recv(torch.ones(1), 0)
        dist.destroy_process_group()

    quick = CollectiveCheck(hold_s=0.1, settle_s=0.5, exit_wait_s=20.0)
    ended = start(run, quick).wait()
    assert [e.code for e in ended] == [0, 0], ended


def test_a_healthy_ddp_job_passes_also_without_destroy_and_formed_twice() -> None:
    again = Gate()

    def run() -> None:
        for turn in range(2):
            if turn == 1 and os.environ["RANK"] == "0":
                again.open()  # its store is gone: nobody takes the old one for the new one
            elif turn == 1:
                again.wait()
            dist.init_process_group("gloo")
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(5):
                model(torch.ones(2, 8)).sum().backward()
                optimizer.step()
            del model, optimizer
            if turn == 0:
                dist.destroy_process_group()

    ended = start(run, CHECK).wait()
    assert [e.code for e in ended] == [0, 0], ended


def test_a_rank_that_dies_is_no_mismatch() -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        for step in range(9):
            if step == 5 and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(torch.ones(4))

    first, second = start(run, CHECK).wait()
    assert second.code == -9
    assert first.code == 1
    assert "exit 87" not in first.err
