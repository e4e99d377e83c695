"""The built-in workloads: their results are known, and nothing is left by them."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from pathlib import Path

import pytest
from forked_ranks import make_plan, run_arm

from chaoskit import workloads
from chaoskit.history import (
    Completed,
    Entered,
    History,
    OpFailed,
    PhaseDeclared,
    Raised,
    Reported,
    Started,
    Stepped,
)
from chaoskit.judge import blame
from chaoskit.model import Kind
from chaoskit.workloads._digest import fold, share, total

NAMES = [
    "abort-on-error", "all-reduce-loop", "checkpoint-train", "ddp-train", "decisions", "loader-train",
    "preemptible", "prepare-data", "ring-p2p", "skip-on-error", "subgroups", "try-finally", "uneven-data",
]  # fmt: skip


def test_all_are_found_without_torch() -> None:
    assert workloads.names() == NAMES
    code = (
        "import sys; from chaoskit import workloads as w;"
        "[w.get(n).expected({}, 4) for n in w.names()]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["no-such", "_digest", "", "../rank", "a b"])
def test_an_unknown_name_is_none(name: str) -> None:
    assert workloads.get(name) is None


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_is_and_takes(name: str) -> None:
    program = workloads.get(name)
    assert program is not None
    assert program.summary.endswith(".")
    assert dict(program.settings)["steps"] == 20
    assert program.complete({"steps": 3})["steps"] == 3


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_what_it_says_of_its_operations_is_what_it_calls(name: str) -> None:
    module = importlib.import_module(f"chaoskit.workloads.{name.replace('-', '_')}")
    run = run_arm(workload=name, ranks=4)
    called = {(e.group, e.op) for e in run.of(Entered) if e.op != "init"}
    said = {(group, op) for group, ops in module.OPS.items() for op in ops}
    if name == "subgroups":
        said.remove(("default", "barrier"))  # in the place of monitored_barrier under NCCL
        for entry in run.of(Entered):
            assert entry.op == "init" or entry.members == tuple(module.members(entry.group, 4))
    assert called == said


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "ranks"), [(n, r) for n in NAMES for r in (2, 3)])
def test_every_rank_reports_the_known_result(name: str, ranks: int) -> None:
    plan = make_plan(workload=name, ranks=ranks)
    run = run_arm(workload=name, ranks=ranks)
    assert set(run.exit_codes.values()) == {0}
    assert {e.slot: e.value for e in run.of(Reported)} == dict.fromkeys(range(ranks), plan.expected_result)
    assert [e.step for e in run.of(Stepped, 0)] == list(range(1, 21))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("order", ["together", "in-turn"])
def test_the_ring_says_with_whom_each_rank_exchanges(order: str) -> None:
    run = run_arm(workload="ring-p2p", ranks=3, settings={"order": order, "steps": 2})
    assert set(run.exit_codes.values()) == {0}
    peers = {(e.slot, e.op): e.peer for e in run.of(Entered) if e.op in ("send", "recv")}
    assert peers == {(s, "send"): (s + 1) % 3 for s in range(3)} | {
        (s, "recv"): (s - 1) % 3 for s in range(3)
    }
    assert {e.peer for e in run.of(Entered) if e.op not in ("send", "recv")} == {-1}
    sent = {(e.slot, e.seq) for e in run.of(Entered)}
    assert sent == {(e.slot, e.seq) for e in run.of(Completed)}


@pytest.mark.timeout(300)
def test_a_ring_that_receives_first_is_a_circle() -> None:
    run = run_arm(workload="ring-p2p", ranks=3, settings={"order": "receive-first"}, rest_s=1.5)
    found = blame.find(History.of([*(Started(0.0, s, s) for s in range(3)), *run.events]))
    assert (found.kind, [c.id for c in found.culprits], found.ambiguous) == (
        Kind.DEADLOCK, ["0", "1", "2"], False
    )  # fmt: skip


@pytest.mark.timeout(300)
def test_the_ranks_can_meet_in_a_file() -> None:
    run = run_arm(workload="all-reduce-loop", settings={"rendezvous": "file"}, env={1: {"MASTER_PORT": "1"}})
    assert set(run.exit_codes.values()) == {0}
    assert len(run.of(Reported)) == 2


@pytest.mark.timeout(300)
def test_a_rank_that_cannot_form_the_group_lingers() -> None:
    no_such = {1: {"GLOO_SOCKET_IFNAME": "nope0"}}
    run = run_arm(workload="all-reduce-loop", settings={"lingers_s": 1.5}, env=no_such, rest_s=2.5)
    (failed,) = run.of(OpFailed, 1)
    (raised,) = run.of(Raised, 1)
    assert raised.t_s - failed.t_s > 1.4


@pytest.mark.timeout(300)
def test_ddp_has_several_buckets_and_declares_its_checkpoints() -> None:
    run = run_arm(workload="ddp-train", ranks=2, settings={"steps": 5, "layers": 3})
    reductions = [e for e in run.of(Entered, 0) if e.op == "all_reduce" and e.step == 3]
    assert len(reductions) == 3
    assert [(e.slot, e.name, e.allowance_s > 0) for e in run.of(PhaseDeclared)] == [
        (0, "checkpoint", True), (0, "checkpoint", False),
    ]  # fmt: skip
    assert [e.nth for e in run.of(Entered, 1) if e.op == "barrier"] == [1, 2]


@pytest.mark.timeout(300)
def test_a_loader_has_its_batches_with_and_without_workers() -> None:
    wanted = make_plan(workload="loader-train", ranks=2).expected_result
    for settings in ({"workers": 0}, {"persistent": False, "workers": 1}, {"cache": True}):
        run = run_arm(workload="loader-train", ranks=2, settings=settings, rest_s=30)  # type: ignore[arg-type]
        assert [e.value for e in run.of(Reported)] == [wanted, wanted], settings


@pytest.mark.timeout(300)
def test_checkpoints_are_resumed_from_the_newest(tmp_path: Path) -> None:
    scratch = {slot: {"CHAOSKIT_SCRATCH": str(tmp_path)} for slot in (0, 1)}
    first = run_arm(workload="checkpoint-train", settings={"steps": 12}, env=scratch)
    assert set(first.exit_codes.values()) == {0}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["step-10.pt", "step-5.pt"]
    second = run_arm(workload="checkpoint-train", settings={"resume": True}, env=scratch)
    assert len(second.of(Stepped, 1)) == 10
    wanted = make_plan(workload="checkpoint-train").expected_result
    assert [e.value for e in second.of(Reported)] == [wanted, wanted]


@pytest.mark.timeout(300)
def test_subgroups_have_names_and_members() -> None:
    run = run_arm(workload="subgroups", ranks=4, settings={"steps": 2})
    seen = {
        (e.slot, e.group, e.members) for e in run.of(Entered) if e.op == "all_reduce" and e.group != "default"
    }
    assert seen == {
        (0, "left", (0, 1)), (1, "left", (0, 1)), (2, "right", (2, 3)), (3, "right", (2, 3)),
    }  # fmt: skip


# -------------------------------------------------------------------------- any fault shows in the result


def digest(sums: list[float]) -> float:
    result = 0.0
    for value in sums:
        result = fold(result, value)
    return result


def differs(a: float, b: float) -> bool:
    return not abs(a - b) <= 1e-4 * abs(b)


def sums(world: int) -> list[float]:
    values = [float(total(range(world), step)) for step in range(1, 21)]
    assert max(values) < 2**24  # exact in float32
    return values


@pytest.mark.parametrize("world", [2, 3, 4, 8, 16, 64])
def test_a_dropped_contribution_shows(world: int) -> None:
    right = sums(world)
    for rank in range(world):
        for step in range(1, 21):
            wrong = [v - share(rank, s) * (s == step) for s, v in enumerate(right, 1)]
            # By chance, 1 digest in 5000 is within the tolerance: none of the worlds that scenarios use.
            assert differs(digest(wrong), digest(right)) or world > 8, (rank, step)


@pytest.mark.parametrize("world", [2, 3, 4, 8, 16, 64, 256])
def test_a_shift_by_one_step_shows(world: int) -> None:
    right = sums(world)
    for rank in range(world):
        wrong = [v - share(rank, s) + share(rank, s + 1) for s, v in enumerate(right, 1)]
        assert differs(digest(wrong), digest(right)), rank


@pytest.mark.parametrize("garbage", [math.nan, math.inf, 1e38, 1e-42, 12345.678])
def test_garbage_shows(garbage: float) -> None:
    right = [float(total(range(4), s)) for s in range(1, 21)]
    assert differs(digest([*right[:9], garbage, *right[10:]]), digest(right))
