"""What is known to be replicated, when it is looked at, and its checksum."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from guards.job import start
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_module
from torch.nn.parallel import DistributedDataParallel

from chaoskit.intercept import replicated
from chaoskit.intercept.checksum import checksum, combined, numbers
from chaoskit.intercept.replicated import Replica

# ---- the checksum


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int8, torch.complex64])
@pytest.mark.parametrize("numel", [1, 7, 1000, 140_001])
def test_every_bit_counts(dtype: torch.dtype, numel: int) -> None:
    tensor = (torch.rand(numel) * 100).to(dtype)
    before = checksum([tensor])
    assert 0 <= before < 1 << 63
    assert checksum([tensor.clone()]) == before
    for at in {0, numel // 2, numel - 1}:
        for bit in (0, 7):
            other = tensor.clone()
            other.view(torch.uint8)[at * tensor.element_size()] ^= 1 << bit
            assert checksum([other]) != before


def test_no_two_flipped_signs_cancel() -> None:
    tensor = torch.randn(64)
    seen = {checksum([tensor]), checksum([-tensor])}
    for one in range(64):
        for two in range(one):
            other = tensor.clone()
            other[[one, two]] *= -1
            seen.add(checksum([other]))
    assert len(seen) == 2 + 64 * 63 // 2


def test_position_and_order_count_and_memory_layout_does_not() -> None:
    one, two = torch.randn(30, 7), torch.randn(8)
    assert checksum([one, two]) != checksum([two, one])
    swapped = two.clone()
    swapped[[0, 1]] = two[[1, 0]]
    assert checksum([swapped]) != checksum([two])
    assert checksum([one.t().contiguous().t()]) == checksum([one])
    padded = torch.cat([torch.zeros(1), two])
    assert checksum([padded[1:]]) == checksum([two])
    assert checksum([torch.zeros(3)]) != checksum([torch.zeros(4)])
    assert checksum([]) == 0
    assert checksum([torch.zeros(0), two]) != checksum([two])


@settings(deadline=None)
@given(data=st.data(), sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8))
def test_of_a_flipped_bit_it_is_known_in_which_tensor_it_is(data: st.DataObject, sizes: list[int]) -> None:
    tensors = [torch.arange(size, dtype=torch.int16) * 7 + size for size in (*sizes, 3)]
    before = numbers(tensors)
    index = data.draw(st.sampled_from([i for i, tensor in enumerate(tensors) if tensor.numel()]))
    element = data.draw(st.integers(0, tensors[index].numel() - 1))
    tensors[index][element] ^= 1 << data.draw(st.integers(0, 14))
    after = numbers(tensors)
    assert [i for i in range(len(tensors)) if before[i] != after[i]] == [index]
    assert combined(before) != combined(after) == checksum(tensors)


def test_a_tensor_s_number_does_not_depend_on_its_neighbours() -> None:
    sizes = (1, 0, 8, 16_384, 3, 16_386, 140_001, 100, *[9_000] * 20, 7)  # small, large, more than one batch
    tensors = [torch.randn(size) for size in sizes] + [torch.randn(2, dtype=torch.float64)[::2]]
    together = numbers(tensors)
    assert together == [number for tensor in tensors for number in numbers([tensor])]
    assert len(set(together)) == len(tensors)
    assert all(0 <= number < 1 << 64 for number in together)


# ---- what is known


def seen_by(run: Callable[[list[Replica]], object], ranks: int = 2) -> list[str]:
    """Run a job and return what each rank printed."""

    def job() -> None:
        found: list[Replica] = []
        replicated.on_replica(found.append)
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        run(found)
        dist.barrier()
        dist.destroy_process_group()

    ended = start(job, ranks=ranks).wait(40)
    assert [rank.code for rank in ended] == [0] * ranks, ended
    return [rank.out for rank in ended]


def one_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_ddp_parameters_are_looked_at_before_the_forward_pass_after_each_update() -> None:
    def run(found: list[Replica]) -> None:
        model = DistributedDataParallel(torch.nn.Linear(8, 8))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            one_step(model, optimizer)
        model(torch.randn(2, 8))
        model(torch.randn(2, 8))  # no update since
        model.eval()
        model(torch.randn(2, 8))
        assert [(r.ranks, r.ordinal, r.step, r.numel) for r in found] == [
            ((0, 1), 0, n, 72) for n in range(4)
        ]
        assert found[-1].checksum == checksum(model.parameters())
        assert len({r.checksum for r in found}) == 4
        assert replicated.numel() == 72
        print([r.checksum for r in found], replicated.state(1))
        first = replicated.state(1)
        next(model.parameters()).data += 1
        assert replicated.state(1) == first != replicated.state(2)
        del model, optimizer
        assert replicated.state(3) is None

    one, two = seen_by(run)
    assert one == two


def test_each_parameter_has_a_number_and_the_script_s_name() -> None:
    def run(found: list[Replica]) -> None:
        also: list[Replica] = []
        replicated.on_any_replica(also.append)
        layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
        layers[0].bias.requires_grad_(False)
        model = DistributedDataParallel(layers)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        one_step(model, optimizer)
        if dist.get_rank() == 1:
            layers[1].bias.data.view(torch.int32)[3] ^= 1
        one_step(model, optimizer)
        assert found == also
        assert [r.names for r in found] == [("0.weight", "1.weight", "1.bias")] * 2
        assert found[0].checksum == combined(found[0].numbers)
        print(*found[1].numbers)

    one, two = (out.split() for out in seen_by(run))
    assert [a == b for a, b in zip(one, two, strict=True)] == [True, True, False]


def test_nothing_is_watched_for_those_who_only_hear_what_others_ask() -> None:
    replicated.on_any_replica(lambda _: None)
    try:
        assert not replicated._replicated.watching
    finally:
        replicated._replicated.also.clear()


def test_ignored_and_frozen_parameters_and_buffers_are_not() -> None:
    def run(found: list[Replica]) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8))
        model[0].weight.requires_grad_(False)
        ignored = ["2.weight"]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ignored)
        model = DistributedDataParallel(model)
        assert replicated.numel() == 8 + 16 + 8

    seen_by(run)


def test_sharded_parameters_are_not_and_replicated_dtensors_are() -> None:
    def run(found: list[Replica]) -> None:
        mesh = init_device_mesh("cpu", (2,))
        sharded = torch.nn.Linear(8, 8)
        fully_shard(sharded, mesh=mesh)
        one_step(sharded, torch.optim.SGD(sharded.parameters(), 0.1))
        assert found == []
        assert replicated.state(0) is None
        torch.manual_seed(7)
        whole = distribute_module(torch.nn.Linear(8, 8), mesh)  # replicates by itself
        optimizer = torch.optim.SGD(whole.parameters(), 0.1)
        named = torch.optim.SGD(whole.named_parameters(), 0.1)
        for _ in range(3):
            for parameter in whole.parameters():
                parameter.grad = torch.ones_like(parameter)
            optimizer.step()
        assert [(r.ranks, r.step, r.numel) for r in found] == [((0, 1), n, 72) for n in range(3)]
        assert found[0].names == ("parameter 0 of group 0", "parameter 1 of group 0")
        print([r.checksum for r in found])
        if "param_names" in named.param_groups[0]:  # torch 2.6 and newer
            named.step()
            assert found[-1].names == ("weight", "bias")

    one, two = seen_by(run)
    assert one == two


def test_a_subgroup_s_is_not_the_whole_job_s() -> None:
    def run(found: list[Replica]) -> None:
        told: list[tuple[int, int]] = []
        replicated.on_forward(lambda step, checksum: told.append((step, checksum)))
        alone = dist.new_group([0, 1])
        dist.new_group([1, 2])
        if dist.get_rank() < 2:
            model = DistributedDataParallel(torch.nn.Linear(8, 8), process_group=alone)
            one_step(model, torch.optim.SGD(model.parameters(), 0.1))
            assert [r.ranks for r in found] == [(0, 1)]
        assert told == []
        assert replicated.state(1) is None

    seen_by(run, ranks=3)


def test_under_torch_compile_it_is_looked_at_before_the_next_step() -> None:
    def run(found: list[Replica]) -> None:
        model = DistributedDataParallel(torch.nn.Linear(8, 8))
        compiled = torch.compile(model, backend="eager")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            one_step(compiled, optimizer)
        assert [r.step for r in found] in ([0, 1, 2], [1, 2])
        print([r.checksum for r in found])

    one, two = seen_by(run)
    assert one == two


def test_why_something_is_unchecked_is_told() -> None:
    def run(found: list[Replica]) -> None:
        model = DistributedDataParallel(torch.nn.Linear(8, 8))
        with model.no_sync():
            one_step(model, torch.optim.SGD(model.parameters(), 0.1))
        assert replicated.unchecked() == (
            "DistributedDataParallel(Linear): an optimizer step after a forward pass under no_sync()",
        )
        assert replicated.state(0) is None

    seen_by(run)


def test_what_is_moved_between_an_unsynced_and_a_synced_forward_pass_is_not_looked_at() -> None:
    def run(found: list[Replica]) -> None:
        model = DistributedDataParallel(torch.nn.Linear(8, 8))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(3):
            with model.no_sync():
                model(torch.randn(2, 8)).pow(2).sum().backward()
            assert len(found) == step, "told only once a synced pass follows"
            kept = [p.detach().clone() for p in model.parameters()]
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(parameter.grad, alpha=0.05)  # of this rank alone
            optimizer.zero_grad()
            model(torch.randn(2, 8)).pow(2).sum().backward()
            assert (len(found), found[-1].step) == (step + 1, step)
            assert found[-1].checksum == checksum(kept) != checksum(model.parameters())
            with torch.no_grad():
                for parameter, old in zip(model.parameters(), kept, strict=True):
                    parameter.copy_(old)
            optimizer.step()
            optimizer.zero_grad()
        assert replicated.unchecked() == ()
        print([r.checksum for r in found])

    one, two = seen_by(run)
    assert one == two


def test_a_wrapped_class_keeps_its_face() -> None:
    def run(found: list[Replica]) -> None:
        import inspect
        import pickle

        assert "device_ids" in inspect.signature(DistributedDataParallel).parameters
        model = DistributedDataParallel(torch.nn.Linear(8, 8))
        assert not model._forward_pre_hooks
        assert b"chaoskit" not in pickle.dumps(model.module) + pickle.dumps(model.state_dict())

    seen_by(run)
