"""What is wrong with a scenario as a whole."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from chaoskit.faults.cast import Cast
from chaoskit.faults.kill import Kill
from chaoskit.faults.skip import Skip
from chaoskit.faults.stall import Stall
from chaoskit.model import (
    Arm,
    Expectation,
    Fault,
    Injection,
    Outcome,
    Phase,
    Scenario,
    Span,
    Topology,
    Trigger,
    Workload,
)
from chaoskit.scenario import check, checks

FAILED = Expectation((("gloo", Outcome.FAILED), ("nccl", Outcome.FAILED)))
DONE = Expectation((("gloo", Outcome.COMPLETED), ("nccl", Outcome.COMPLETED)))
REDUCE = Trigger("collective", "all_reduce", 8)


def scenario(fault: Fault | None = None, when: Trigger = REDUCE, **changes: Any) -> Scenario:
    made = Scenario(
        "one",
        "text",
        "process",
        Workload("all-reduce-loop"),
        Topology(4),
        (Injection(fault or Kill((1,)), when),),
        (Arm("control", "torch-defaults", FAILED), Arm("hardened", "strict", FAILED)),
    )
    return dataclasses.replace(made, **changes)


def said(one: Scenario) -> list[str]:
    return [p.message for p in check(one)]


def test_a_good_one_has_none() -> None:
    assert said(scenario()) == []


def test_during_needs_a_peer_that_is_no_target() -> None:
    during = dataclasses.replace(REDUCE, phase=Phase.DURING)
    assert said(scenario(Kill((1,)), during)) == []
    assert "single rank" in said(scenario(Kill((0,)), during, topology=Topology(1)))[0]
    assert "every rank is a target" in said(scenario(Kill("all"), during))[0]
    assert "every rank is a target" in said(scenario(Kill((0, 1)), during, topology=Topology(2)))[0]


def test_during_needs_an_operation_that_can_be_submitted() -> None:
    when = Trigger("collective", "monitored_barrier", 2, phase=Phase.DURING)
    assert "no phase during" in said(scenario(Kill((1,)), when, workload=Workload("subgroups")))[0]


def test_a_phase_that_the_fault_does_not_take() -> None:
    assert (
        "can never fire during"
        in said(scenario(Skip((1,)), dataclasses.replace(REDUCE, phase=Phase.DURING)))[0]
    )


def test_a_healthy_scenario_has_to_complete() -> None:
    one = scenario(Stall((1,), 0.1), healthy=True)
    assert [m.partition(" expects ")[0] for m in said(one)] == [
        f"a healthy scenario has to complete, but arms.{arm}"
        for arm in ("control", "control", "hardened", "hardened")
    ]
    fine = (Arm("control", "torch-defaults", DONE), Arm("hardened", "strict", DONE))
    assert said(dataclasses.replace(one, arms=fine)) == []


def test_a_span_needs_a_timeout_of_the_hardened_profile() -> None:
    within = dataclasses.replace(FAILED, within=Span(1.0, "collective"))
    arms = (Arm("control", "torch-defaults", FAILED), Arm("hardened", "torchrun-policy", within))
    assert "does not set" in said(scenario(arms=arms))[0]
    stalled = scenario(
        Stall((1,), Span(0.0, "init", 2.0)), arms=(arms[0], Arm("hardened", "folklore", FAILED))
    )
    assert "for follows the init timeout" in said(stalled)[0]


def test_a_culprit_that_was_never_started_is_possible_only_where_the_launcher_lies() -> None:
    from chaoskit.faults.environment import Environment
    from chaoskit.model import Culprit

    blamed = dataclasses.replace(FAILED, culprits=(Culprit("rank", "4"),))
    arms = (Arm("control", "torch-defaults", FAILED), Arm("hardened", "strict", blamed))
    assert said(scenario(arms=arms)) == ["arms.hardened: culprit rank 4 does not exist"]
    assert said(scenario(Environment("all", (("WORLD_SIZE", "5"),)), Trigger("launch"), arms=arms)) == []


def test_nothing_going_wrong_is_a_problem_unless_healthy() -> None:
    assert said(scenario(injections=())) == ["nothing goes wrong in this scenario"]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workload that says which operations and groups it has."""
    module = SimpleNamespace(
        OPS={"default": ("all_reduce", "barrier"), "left": ("broadcast",)},
        members=lambda group, ranks: range(ranks // 2) if group == "left" else range(ranks),
    )
    monkeypatch.setattr(checks, "_module", lambda _: module)


@pytest.mark.usefixtures("told")
def test_operations_and_groups_that_the_workload_does_not_have() -> None:
    assert said(scenario()) == []
    assert said(scenario(when=Trigger("collective", "all_gather"))) == [
        "faults[0]: all-reduce-loop never calls all_gather"
    ]
    (problem,) = check(scenario(when=Trigger("collective", "broadcast")))
    assert problem.hint == "group: left has it"
    assert said(scenario(when=Trigger("collective", "broadcast", group="lft"))) == [
        "faults[0]: all-reduce-loop has no group 'lft'"
    ]
    assert said(scenario(Kill((3,)), Trigger("collective", "broadcast", group="left"))) == [
        "faults[0]: can never fire on rank 3: group left has 0, 1"
    ]
    assert "needs tensors" in said(scenario(Cast((1,)), Trigger("collective", "barrier")))[0]


def test_another_number_of_ranks_is_checked_again() -> None:
    smaller = scenario(Kill((3,)), topology=Topology(2))
    assert [p.message for p in checks.check_ranks(smaller)] == ["faults[0].kill: rank 3 does not exist"]
