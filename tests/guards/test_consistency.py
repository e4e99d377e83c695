"""Replicas that differ silently: every rank exits 88, the odd one and the step are named; healthy ways of
being unequal are left alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from guards.job import Ended, start
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local_sgd
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from chaoskit import guards
from chaoskit.guards import comparing
from chaoskit.guards.agreement import Agreement
from chaoskit.guards.comparison import Entered
from chaoskit.guards.consistency import Consistency

# Long: nothing waits for it where no rank is missing, and a machine may hold one up for seconds.
CHECK = Consistency(every=1, settle_s=15.0, exit_wait_s=30.0)
EVERY_THIRD = Consistency(every=3, settle_s=15.0, exit_wait_s=30.0)
Model = torch.nn.Module
Act = Callable[[int, Model, torch.optim.Optimizer], object]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who loses a peer waits for the reason, however late it is read."""
    monkeypatch.setattr(comparing, "_LAST_WORD_S", 10.0)


def nothing(step: int, model: Model, optimizer: torch.optim.Optimizer) -> None:
    """A healthy step."""


def nudge(step: int, model: Model, optimizer: torch.optim.Optimizer) -> None:
    """Rank 1 alters one weight by its last bit after step 4."""
    if step == 4 and dist.get_rank() == 1:
        weight = next(model.parameters()).data.view(-1)
        weight[3] = torch.nextafter(weight[3], torch.tensor(9.0))


def train(act: Act, steps: int = 8, finish: bool = False) -> Callable[[], None]:
    def run() -> None:
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(8, 8))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(1, steps + 1):
            model(torch.randn(2, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            act(step, model, optimizer)
        print("done")
        if finish:
            guards.finished()
        del model, optimizer
        dist.destroy_process_group()

    return run


def codes(ended: list[Ended]) -> list[int]:
    return [rank.code for rank in ended]


def test_the_first_to_differ_is_named_with_its_step() -> None:
    ended = start(train(nudge), CHECK, ranks=3).wait()
    assert codes(ended) == [88, 88, 88], ended
    for rank in ended:
        assert "rank 1 holds other values of DistributedDataParallel(Linear) than ranks 0, 2" in rank.err
        assert "after step 4; equal after step 3;" in rank.err


def test_every_n_steps_says_between_which() -> None:
    for rank in start(train(nudge), EVERY_THIRD, ranks=3).wait():
        assert rank.code == 88, rank.err
        assert "after step 6; equal after step 3;" in rank.err


def test_an_update_that_one_rank_skips_is_found() -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Linear(8, 8))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(1, 9):
            model(torch.randn(2, 8)).sum().backward()
            if not (step == 4 and dist.get_rank() == 1):
                optimizer.step()
            optimizer.zero_grad()

    for rank in start(run, CHECK, ranks=3).wait():
        assert rank.code == 88, rank.err
        assert "rank 1 holds" in rank.err
        assert "than ranks 0, 2 after step 4" in rank.err


def test_of_two_ranks_nobody_can_tell() -> None:
    for rank in start(train(nudge), CHECK).wait():
        assert rank.code == 88, rank.err
        assert "without a majority either side may be the wrong one" in rank.err


def test_the_very_last_update_is_compared_where_the_script_says_that_it_is_done() -> None:
    ended = start(train(nudge, steps=4, finish=True), CHECK, ranks=3).wait()
    assert codes(ended) == [88, 88, 88], ended


def test_without_it_all_exit_0() -> None:
    assert codes(start(train(nudge)).wait()) == [0, 0]


@pytest.mark.parametrize("guard", [CHECK, EVERY_THIRD])
def test_a_healthy_job_passes(guard: Consistency) -> None:
    ended = start(train(nothing, finish=True), guard).wait()
    assert codes(ended) == [0, 0], ended


# ---- ways in which healthy jobs are unequal, or come near it


def accumulating(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    for step in range(1, 9):
        with contextlib.nullcontext() if step % 4 == 0 else model.no_sync():
            model(torch.randn(2, 8)).sum().backward()
        if step % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()


def local_steps(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    for step in range(1, 9):
        with model.no_sync():
            model(torch.randn(2, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 4 == 0:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data, op=dist.ReduceOp.SUM)
                parameter.data /= 2


def post_local_sgd(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    state = local_sgd.PostLocalSGDState(None, dist.new_group([dist.get_rank()]), start_localSGD_iter=2)
    dist.barrier()
    model.register_comm_hook(state, local_sgd.post_localSGD_hook)
    plain(model, optimizer)


def compressing(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    plain(model, optimizer)


def own_hook(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    def keep(state, bucket):  # type: ignore[no-untyped-def]  # torch looks at annotations, not at texts
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    model.register_comm_hook(None, keep)
    plain(model, optimizer)


def plain(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(6):
        model(torch.randn(2, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def uneven(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(2):
        with Join([model]):
            for _ in range(3 + 2 * dist.get_rank()):
                model(torch.randn(2, 8)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()


def evaluating_on_rank_0(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(4):
        plain(model, optimizer)
        if dist.get_rank() == 0:
            kept = [p.detach().clone() for p in model.parameters()]
            for parameter in model.parameters():  # as averaged weights are swapped in and out
                parameter.data.mul_(0.9)
            model.module.eval()
            with torch.no_grad():
                model.module(torch.randn(2, 8))
            model.module.train()
            for parameter, before in zip(model.parameters(), kept, strict=True):
                parameter.data.copy_(before)
            model.module(torch.randn(2, 8))
            model(torch.randn(2, 8))  # one forward pass more, without a backward pass
        dist.barrier()


@pytest.mark.parametrize(
    "train_so",
    [accumulating, local_steps, post_local_sgd, compressing, own_hook, uneven, evaluating_on_rank_0],
)
def test_healthy_ways_of_training_pass(train_so: Callable[..., None]) -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(8, 8))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        train_so(model, optimizer)
        guards.finished()
        del model, optimizer
        dist.destroy_process_group()

    ended = start(run, CHECK).wait()
    assert codes(ended) == [0, 0], ended


def test_a_sharded_optimizer_that_broadcasts_after_its_step_passes() -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)))
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
        plain(model, optimizer)
        del model, optimizer
        dist.destroy_process_group()

    ended = start(run, CHECK).wait()
    assert codes(ended) == [0, 0], ended


def test_a_model_replicated_by_pairs_is_compared_in_its_pair_only() -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(8, 8), process_group=pairs[dist.get_rank() // 2])
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(1, 7):
            model(torch.randn(2, 8)).sum().backward()
            optimizer.step()
            if step == 4 and dist.get_rank() == 3 and differs:
                next(model.parameters()).data += 1
        del model, optimizer
        dist.barrier()
        dist.destroy_process_group()

    differs = False
    assert codes(start(run, CHECK, ranks=4).wait()) == [0, 0, 0, 0]
    differs = True
    for rank in start(run, CHECK, ranks=4).wait():
        assert rank.code == 88
        assert "rank 3 holds other values" in rank.err
        assert "than rank 2 after step 4" in rank.err


def test_a_rank_that_dies_is_no_difference() -> None:
    def die(step: int, model: Model, optimizer: torch.optim.Optimizer) -> None:
        if step == 4 and dist.get_rank() == 1:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)

    first, second = start(train(die), CHECK).wait()
    assert (first.code, second.code) == (1, -9)


# ---- the comparison alone


def entered(checksum: int, step: int) -> Entered:
    return Entered(checksum, "DDP(M)", 8, "", step)


def test_the_earliest_difference_counts_and_a_majority_is_waited_for() -> None:
    agreement, key = Agreement(), ("0", (0, 1, 2))
    for rank in (0, 1, 2):
        agreement.enter(rank, key, 1, entered(7, 0))
    assert agreement.agreed(key) == 1
    agreement.enter(0, key, 2, entered(8, 1))
    agreement.enter(0, key, 3, entered(9, 2))
    agreement.enter(2, key, 2, entered(5, 1))
    dispute = agreement.dispute()
    assert dispute is not None
    assert not dispute.complete
    agreement.enter(1, key, 2, entered(8, 1))
    dispute = agreement.dispute()
    assert dispute is not None
    assert dispute.complete
    assert agreement.odd(dispute) == (2,)
    assert agreement.describe(dispute) == (
        "rank 2 holds other values of DDP(M) than ranks 0, 1 after step 1; equal after step 0"
    )


def test_who_leaves_or_dies_is_not_waited_for() -> None:
    agreement, key = Agreement(), ("0", (0, 1, 2))
    agreement.enter(0, key, 1, entered(7, 0))
    agreement.leave(1, key, 0)
    assert agreement.agreed(key) == 0
    agreement.gone(2)
    assert agreement.agreed(key) == 1
    agreement.leave(0, key, 1)
    assert agreement.agreed(key) > 1
    assert agreement.dispute() is None
