"""Interception on real gloo ranks: everything is seen, nothing is changed, and listeners can change it."""

import pytest
import torch

pytestmark = pytest.mark.timeout(300)


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    return a == b


def ops(calls):
    return [op for _, op, _ in calls]


def ended(ends):
    return [(group, op, nth) for group, op, nth, error in ends if error is None]


def test_every_public_collective_is_seen_ended_and_unchanged(run_ranks):
    with_, without = run_ranks("collectives"), run_ranks("collectives", intercepted=False)
    for rank in (0, 1):
        seen_by_name = with_[rank]["report"]
        for (where, name), (result, calls, ends, expected) in seen_by_name.items():
            assert equal(result, without[rank]["report"][where, name][0]), (where, name)
            assert ops(calls) == expected, (where, name, rank)
            assert {group for group, _, _ in calls} == {where}, (where, name)
            assert sorted(ended(ends)) == sorted(calls), (where, name)
        for table, size in with_[rank]["clean"].items():
            assert size == 0, table


def test_nth_counts_per_group_and_op_from_init_on(run_ranks):
    report = run_ranks("collectives")[0]["report"]
    for where in ("default", "pair"):
        counts = {}
        for (group, _), (_, calls, _, _) in report.items():
            if group == where:
                for _, op, nth in calls:
                    counts[op] = counts.get(op, 0) + 1
                    assert nth == counts[op], (where, op)


def test_frameworks_are_seen_and_unchanged(run_ranks):
    with_, without = run_ranks("frameworks"), run_ranks("frameworks", intercepted=False)
    must = {
        "_ddp": {"all_gather", "broadcast", "all_reduce"},
        "_ddp_hook": {"all_gather", "broadcast", "all_reduce"},
        "_fsdp2": {"all_gather", "reduce_scatter"},
        "_dtensor": {"all_gather", "all_reduce"},
        "_dcp": {"broadcast", "gather", "scatter"},
        "_verify_params": {"all_gather", "broadcast"},
    }
    for rank in (0, 1):
        for name, (result, calls, ends, _) in with_[rank]["report"].items():
            assert equal(result, without[rank]["report"][name][0]), name
            assert must[name] <= set(ops(calls)), (name, calls)
            assert sorted(ended(ends)) == sorted(calls), name
    # Two steps and one bucket: the reducer's all_reduce is seen once a step, hook or not.
    for name in ("_ddp", "_ddp_hook"):
        assert ops(with_[0]["report"][name][1]).count("all_reduce") == 2


def test_the_group_of_a_mesh_dimension_has_its_name(run_ranks):
    # torch takes the default group for a dimension that spans the world, and for "rows" here.
    for rank, found in enumerate(run_ranks("frameworks")):
        groups = found["report"]["_dtensor"][3]
        assert [(name, ranks) for name, ranks, _ in groups] == [("mesh_columns", (rank,))]


def test_a_split_group_is_wrapped(run_ranks):
    name, description, size, groups, calls = run_ranks("split", world=1)[0]["report"]
    assert (name, description, size) == ("p", "part", 1)
    assert groups == [("part", (0,), 12.0)]
    assert calls == [("part", "all_reduce", 1)]


def test_listeners_can_skip_repeat_and_replace(run_ranks):
    for rank, found in enumerate(run_ranks("changed")):
        own = rank + 1.0
        # all_reduce by hand (1 + 2), async, and DDP's mean of the gradients (1 + 2) / 2; a bucket is divided
        # by the world size before it is reduced.
        want = {
            "nothing": (3.0, 3.0, 1.5),
            "skip": (own, own, own / 2),
            "twice": (6.0, 6.0, 3.0),
            "ones": (own, own, 2.0),
        }
        for change, (by_hand, later, gradient, calls, ends) in found["report"].items():
            for got, value in zip((by_hand, later, gradient), want[change], strict=True):
                assert torch.equal(got, torch.full((2,), value)), (change, rank)
            assert ops(calls) == ["all_reduce"] * 3
            assert sorted(ended(ends)) == sorted(calls)


def test_a_group_looks_as_before(run_ranks):
    with_, without = run_ranks("identity"), run_ranks("identity", intercepted=False)
    for rank in (0, 1):
        assert with_[rank]["report"] == without[rank]["report"]
    report = with_[0]["report"]
    assert report["backend"] == ("gloo", "gloo", "gloo", "gloo")
    assert report["timeouts"] == [30.0, 33.0]
    assert report["pg timeout set"] == 21.0
    assert report["timeouts set"] == [22.0, 23.0]


def test_errors_keep_their_types_and_are_reported(run_ranks):
    with_, without = run_ranks("errors"), run_ranks("errors", intercepted=False)
    for rank in (0, 1):
        assert with_[rank]["report"][0] == without[rank]["report"][0]
    caught, ends = with_[0]["report"]
    assert caught["monitored"] == caught["sync"] == ("builtins", "RuntimeError")
    assert caught["bad argument"] == ("builtins", "TypeError")
    assert [(op, error) for _, op, _, error in ends] == [
        ("monitored_barrier", "RuntimeError"),
        ("monitored_barrier", "RuntimeError"),
        ("all_reduce", "RuntimeError"),
    ]


def test_abort_and_shutdown_work(run_ranks):
    with_, without = run_ranks("aborted"), run_ranks("aborted", intercepted=False)
    assert [r["report"] for r in with_] == [r["report"] for r in without]


def test_group_names_are_unique_and_the_same_on_every_rank(run_ranks):
    for rank, found in enumerate(run_ranks("names")):
        groups, calls = found["report"]
        # torch numbers groups on all ranks, members or not: 1 to 4 are the named ones.
        names = [("pair", (0, 1)), ("pair#2", (0, 1)), ("own", (rank,)), ("5", (0, 1))]
        assert [(name, ranks) for name, ranks, _ in groups] == names
        assert calls == [
            ("pair", "all_reduce", 1),
            ("pair#2", "all_reduce", 1),
            ("5", "all_reduce", 1),
            ("default", "all_reduce", 1),
            ("pair", "all_reduce", 2),
        ]


def test_init_is_announced(run_ranks):
    for found in run_ranks("nothing"):
        assert found["init"] == (["enter", None], [("default", (0, 1), 30.0)])


def test_the_users_line_and_comparable_fingerprints(run_ranks):
    zero, one = (found["report"] for found in run_ranks("lines"))
    assert [op for op, _, _ in zero] == ["all_reduce", "all_reduce", "broadcast"]
    for _, (file, line, function), _ in (*zero, *one):
        assert file.endswith("rank_jobs.py")
        assert line > 0
        assert function == "lines"
    # Line by line, as both ranks run the same program.
    assert [site for _, site, _ in zero] == [site for _, site, _ in one]
    prints = [[p for _, _, p in found] for found in (zero, one)]
    assert prints[0][:2] == prints[1][:2]
    assert prints[0][2] != prints[1][2]
    assert prints[0][0] != prints[0][1]
