"""What frameworks and rarely used interfaces issue is seen, ends, and computes the same bytes as without."""

import io
import pickle

import pytest
import torch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

AR, AG, RS, BC = "all_reduce", "all_gather", "reduce_scatter", "broadcast"
# What each program has to be seen to issue at least, with how many times.
MUST = {
    "ddp_find_unused": {AR: 6, BC: 2, AG: 1},
    "ddp_static_graph": {AR: 4, BC: 4, AG: 1},
    "ddp_bucket_views_of_one_parameter": {AR: 10},
    "ddp_no_sync": {AR: 3},
    "ddp_buffers": {AR: 3, BC: 8},
    "ddp_builtin_hook": {AR: 3},
    "ddp_python_hooks": {AR: 12},
    "ddp_join": {AR: 8},
    "ddp_zero": {AR: 2, BC: 8},
    "model_averaging": {AR: 2},
    "fsdp1": {AG: 3, RS: 2},
    "fsdp2_mixed": {AG: 6, RS: 6},
    "fsdp2_state_dict": {AG: 2, RS: 1},
    "dcp_async": {AG: 1, "scatter": 1, "gather": 1},
    "tensor_parallel": {AR: 3},
    "pipeline": {"send": 2, "recv": 2},
    "autograd_collectives": {AG: 2, AR: 2, RS: 2},
    "functional_p2p": {},
    "compiled": {AR: 4, AG: 3},
    "recorded": {AR: 3, "barrier": 1},  # once while it is recorded, and twice as a graph
    "counted": {AR: 2},
    "independent": {AR: 1, BC: 1, "barrier": 1},
    "dispatched": {
        AR: 3,
        AG: 4,
        RS: 3,
        BC: 1,
        "all_to_all": 2,
        **dict.fromkeys(("reduce", "gather", "scatter", "barrier", "monitored_barrier"), 1),
    },
    "hybrid_sharding": {AG: 3, RS: 3, AR: 3},
    "two_dimensions": {AG: 3, RS: 3, AR: 3},
    "redistribution": {AG: 2, AR: 1},
}


def as_bytes(result):
    """Bit for bit: equality of floats would pass over signs of zero, and fail for NaN."""

    def flat(value):
        if isinstance(value, torch.Tensor):
            raw = value.detach().contiguous().numpy().tobytes()
            return (str(value.dtype), tuple(value.shape), raw)
        if isinstance(value, dict):
            return {key: flat(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [flat(item) for item in value]
        return value

    out = io.BytesIO()
    pickle.dump(flat(result), out)
    return out.getvalue()


def counts(calls):
    found = {}
    for _, op, _ in calls:
        found[op] = found.get(op, 0) + 1
    return found


def check(run_ranks, job, world):
    with_, without = run_ranks(job, world=world), run_ranks(job, world=world, intercepted=False)
    for rank in range(world):
        for name, (result, calls, ends) in with_[rank]["report"].items():
            plain, unseen, _ = without[rank]["report"][name]
            assert as_bytes(result) == as_bytes(plain), (name, rank)
            assert unseen == []
            found = counts(calls)
            for op, least in MUST[name].items():
                assert found.get(op, 0) >= least, (name, rank, op, found)
            assert sorted(end[:3] for end in ends) == sorted(calls), (name, rank)
            assert {end[3] for end in ends} <= {None}, (name, rank)
            assert [nth for _, _, nth in calls].count(0) == 0
        assert not any(with_[rank]["clean"].values())


@pytest.mark.nightly
def test_frameworks_and_rare_interfaces_on_two_ranks(run_ranks):
    check(run_ranks, "parallel", 2)


@pytest.mark.nightly
def test_two_dimensional_meshes_on_four_ranks(run_ranks):
    check(run_ranks, "meshes", 4)
    # Groups of the dimensions are told apart.
    groups = {group for group, _, _ in run_ranks("meshes", world=4)[0]["report"]["two_dimensions"][1]}
    assert groups == {"mesh_dp", "mesh_tp"}


@pytest.mark.nightly
def test_point_to_point_by_functional_collectives(run_ranks):
    zero, one = (found["report"]["functional_p2p"][1] for found in run_ranks("parallel", world=2))
    assert counts(zero) == {"send": 2, "recv": 1}
    assert counts(one) == {"send": 1, "recv": 2}


@pytest.mark.nightly
def test_an_operator_of_the_dispatcher_counts_once_under_a_dispatch_mode(run_ranks):
    for found in run_ranks("parallel", world=2):
        (_, total), calls, _ = found["report"]["counted"]
        assert counts(calls) == {AR: 2}
        assert total == 2
