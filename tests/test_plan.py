"""Scenario and arm and seed → Plan."""

from __future__ import annotations

import dataclasses
from typing import Any

import generated
import library
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit.errors import InvalidInput
from chaoskit.faults.environment import Environment
from chaoskit.faults.kill import Kill
from chaoskit.faults.stall import Stall
from chaoskit.guards.timeouts import Timeouts
from chaoskit.model import (
    Arm,
    Culprit,
    Expectation,
    Injection,
    Kind,
    Outcome,
    Phase,
    Plan,
    Profile,
    Scenario,
    Span,
    Topology,
    Trigger,
    Workload,
)
from chaoskit.plan import PORTS, fixes_world, make_plan, startup_env
from chaoskit.scenario import load_profile, parse, select

STRICT = load_profile("strict")
DEFAULTS = load_profile("torch-defaults")
BARE = load_profile("torchrun-policy")


def named(name: str) -> Scenario:
    (scenario,) = select([name])
    return scenario


def planned(scenario: Scenario, arm: str = "hardened", profile: Profile = STRICT, **choices: Any) -> Plan:
    own = DEFAULTS if arm == "control" else profile
    return make_plan(
        scenario, arm, profile=own, hardened_profile=profile, seed=choices.pop("seed", 7), **choices
    )


KILLED = Scenario(
    name="rank-killed-mid-all-reduce",
    summary="A rank dies by SIGKILL inside an all_reduce; the others must not wait for it.",
    family="process",
    seen_in=("NVIDIA/nccl#795",),
    tags=("quick",),
    workload=Workload("all-reduce-loop"),
    topology=Topology(4, "gloo"),
    injections=(Injection(Kill((1,)), Trigger("collective", "all_reduce", 8, phase=Phase.DURING)),),
    arms=(
        Arm("control", "torch-defaults", Expectation((("gloo", Outcome.FAILED), ("nccl", Outcome.HUNG)))),
        Arm(
            "hardened",
            "strict",
            Expectation(
                (("gloo", Outcome.FAILED), ("nccl", Outcome.FAILED)),
                Span(2.0),
                "nonzero",
                culprits=(Culprit("rank", "1"),),
                kind=Kind.KILLED,
            ),
        ),
    ),
)


KILLED_FILE = """\
name: rank-killed-mid-all-reduce
summary: A rank dies by SIGKILL inside an all_reduce; the others must not wait for it.
family: process
seen_in: [NVIDIA/nccl#795]
tags: [quick]
workload: all-reduce-loop
topology: {ranks: 4, backend: gloo}
faults:
  - kill: {rank: 1}
    when: {op: all_reduce, nth: 8, phase: during}
arms:
  control: {profile: torch-defaults, expect: {outcome: {gloo: failed, nccl: hung}}}
  hardened:
    profile: strict
    expect: {outcome: failed, within: 2s, exit: nonzero, culprits: [rank 1], kind: killed}
"""


def test_an_object_and_its_file_give_the_same_plan() -> None:
    for arm in ("control", "hardened"):
        assert planned(KILLED, arm) == planned(parse(KILLED_FILE), arm)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(generated.scenarios(), generated.profiles(), st.integers(0, 1 << 62))
def test_the_same_inputs_give_the_same_plan(scenario: Scenario, profile: Profile, seed: int) -> None:
    for arm in scenario.arms:
        first, second = (
            make_plan(scenario, arm, profile=profile, hardened_profile=profile, seed=seed) for _ in range(2)
        )
        assert first == second
        assert first.master_port in PORTS
        assert first.deadline_s > 0
        assert all(
            not isinstance(getattr(i.fault, f.name), Span)
            for i in first.injections
            for f in dataclasses.fields(i.fault)
        )  # type: ignore[arg-type]


def test_every_arm_of_the_library_can_be_planned() -> None:
    for scenario in library.scenarios():
        for arm in scenario.arms:
            for backend in ("gloo", "nccl"):
                plan = planned(
                    scenario,
                    arm.name,
                    load_profile(arm.profile) if arm.name != "control" else STRICT,
                    backend=backend,
                )
                assert plan.deadline_s >= 1.5


def test_the_ranks_get_what_torchrun_hands_over() -> None:
    plan = planned(KILLED, master_port=29_000)
    assert [r.slot for r in plan.ranks] == [0, 1, 2, 3]
    env = dict(plan.ranks[2].env)
    assert env["RANK"] == env["LOCAL_RANK"] == env["ROLE_RANK"] == "2"
    assert env["WORLD_SIZE"] == env["LOCAL_WORLD_SIZE"] == "4"
    assert (env["MASTER_ADDR"], env["MASTER_PORT"], env["GROUP_RANK"]) == ("127.0.0.1", "29000", "0")
    assert plan.gated
    assert plan.expected_result is not None


def launched(fault: Environment) -> Scenario:
    return dataclasses.replace(KILLED, injections=(Injection(fault, Trigger("launch")),))


def test_a_launch_fault_edits_its_targets_alone() -> None:
    plan = planned(launched(Environment((2,), (("RANK", "1"), ("EXTRA", "x")), ("LOCAL_RANK", "NEVER_SET"))))
    assert not plan.gated
    assert [dict(r.env)["RANK"] for r in plan.ranks] == ["0", "1", "1", "3"]
    assert dict(plan.ranks[2].env)["EXTRA"] == "x"
    assert "LOCAL_RANK" not in dict(plan.ranks[2].env)
    assert plan.ranks[2].unset == ("LOCAL_RANK", "NEVER_SET")
    assert plan.ranks[1].unset == ()


def test_the_result_is_unknown_where_the_launcher_lies_about_the_world() -> None:
    assert planned(launched(Environment("all", (("WORLD_SIZE", "5"),)))).expected_result is None
    assert planned(launched(Environment((2,), (("RANK", "1"),)))).expected_result is None
    assert planned(launched(Environment((1,), (("GLOO_SOCKET_IFNAME", "x"),)))).expected_result is not None


def stalled(span: Span | float) -> Scenario:
    expect = Expectation((("gloo", Outcome.FAILED), ("nccl", Outcome.FAILED)), Span(1.0, "collective", 2.0))
    return dataclasses.replace(
        KILLED,
        injections=(Injection(Stall((1,), span), Trigger("step", step=3)),),
        arms=(KILLED.arms[0], Arm("hardened", "strict", expect)),
    )


def test_the_automatic_scale_makes_the_collective_timeout_three_seconds() -> None:
    plan = planned(stalled(Span(0.5, "collective", 2.0)))
    assert plan.time_scale == pytest.approx(0.025)
    assert plan.profile.timeouts.collective_s == pytest.approx(3.0)
    assert plan.bound_s == pytest.approx(7.0)  # 2 × 3 s + 1 s: what is added is never scaled
    assert plan.production_bound_s == pytest.approx(241.0)
    assert plan.deadline_s == pytest.approx(7.0 + 0.25 * 7.0)
    assert plan.injections[0].fault == Stall((1,), 6.5)


def test_a_short_timeout_is_not_stretched() -> None:
    short = Profile("short", guards=(Timeouts(1.0, 2.0, 1.0),))
    assert planned(stalled(1.0), profile=short).time_scale == 1.0


def test_the_control_arm_has_the_fault_and_the_bound_of_the_hardened_one() -> None:
    scenario = stalled(Span(0.0, "collective", 2.0))
    control, hardened = planned(scenario, "control"), planned(scenario)
    assert control.injections == hardened.injections
    assert (control.bound_s, control.deadline_s) == (hardened.bound_s, hardened.deadline_s)
    assert control.hardened_contract == hardened.contract
    assert control.contract.outcome is Outcome.FAILED


def test_a_profile_without_timeouts_is_measured_by_those_of_the_file_s_own() -> None:
    plan = planned(stalled(Span(0.0, "collective", 2.0)), profile=BARE)
    assert plan.time_scale == pytest.approx(0.025)
    assert plan.bound_s == pytest.approx(7.0)
    assert plan.injections[0].fault == Stall((1,), 6.0)


def test_a_large_bound_has_a_large_margin() -> None:
    plan = planned(stalled(1.0), time_scale=1.0)
    assert plan.bound_s == pytest.approx(241.0)
    assert plan.deadline_s == pytest.approx(241.0 * 1.25)


def test_a_healthy_arm_has_no_bound_but_a_limit() -> None:
    plan = planned(named("rank-slow"))
    assert plan.bound_s is None
    assert plan.deadline_s == plan.start_limit_s >= 30


def test_the_limits_are_bounded_by_the_timeout_asked_for() -> None:
    plan = planned(stalled(1.0), timeout_s=3.0)
    assert plan.deadline_s == plan.start_limit_s == 3.0


def test_waiting_that_the_scenario_itself_does_is_allowed_for() -> None:
    slow = dataclasses.replace(
        KILLED, workload=Workload("all-reduce-loop", (("steps", 100), ("step_s", 1.0)))
    )
    assert planned(slow).start_limit_s >= 130
    late = dataclasses.replace(KILLED, injections=(Injection(Kill((1,)), Trigger("after", after_s=50.0)),))
    assert planned(late).start_limit_s >= 80


def test_the_same_arm_has_another_port_under_another_seed() -> None:
    assert len({planned(KILLED, seed=seed).master_port for seed in range(20)}) > 10


def test_another_number_of_ranks() -> None:
    assert len(planned(KILLED, ranks=2).ranks) == 2
    assert planned(KILLED, ranks=2).expected_result != planned(KILLED).expected_result
    with pytest.raises(InvalidInput, match=r"with 1 ranks: .*rank 1 does not exist"):
        planned(KILLED, ranks=1)


def test_a_backend_that_the_scenario_is_not_for_gets_a_plan_to_skip() -> None:
    only = Expectation((("gloo", Outcome.FAILED),))
    scenario = dataclasses.replace(
        KILLED, backends=("gloo",), arms=tuple(dataclasses.replace(a, expect=only) for a in KILLED.arms)
    )
    assert planned(scenario, backend="nccl").backend == "nccl"


def test_an_arm_that_is_not_there() -> None:
    with pytest.raises(InvalidInput, match="has no arm 'x'"):
        make_plan(KILLED, "x", profile=STRICT, hardened_profile=STRICT, seed=1)


def test_variables_that_have_to_be_there_at_start_up() -> None:
    assert startup_env(load_profile("folklore")) == (("PYTHONFAULTHANDLER", "1"),)
    assert startup_env(BARE) == (("OMP_NUM_THREADS", "1"),)
    assert startup_env(DEFAULTS) == ()


def test_a_control_of_which_nothing_is_recorded_on_a_backend_promises_nothing_there() -> None:
    plan = planned(named("rank-stopped"), "control", backend="nccl")
    assert plan.contract.outcome is None
    assert plan.hardened_contract.outcome is Outcome.FAILED


def test_a_program_that_starts_slowly_gets_time_for_that_and_no_more_for_anything_else() -> None:
    script = dataclasses.replace(KILLED, workload=Workload("x.py", kind="script", target="x.py"))
    quick, slow = (planned(script, started_s=seconds) for seconds in (5.0, 20.0))
    for plan, at_least_s in ((quick, 30.0), (slow, 80.0)):
        watchdog = plan.profile.guard("progress_watchdog")
        assert watchdog is not None
        assert getattr(watchdog, "start_s") == pytest.approx(at_least_s)  # noqa: B009 - as the model knows it
        assert plan.profile.timeouts.init_s == pytest.approx(at_least_s)
    assert slow.profile.timeouts.collective_s == quick.profile.timeouts.collective_s == pytest.approx(3.0)
    assert slow.start_limit_s == pytest.approx(quick.start_limit_s + 50.0)


def test_many_ranks_get_more_time_to_start_and_no_more_for_anything_else() -> None:
    few, many = (planned(named("rank-stopped"), ranks=n) for n in (4, 32))
    assert few.profile == STRICT.scaled(few.time_scale)
    assert few.profile.timeouts.init_s == pytest.approx(3.0)
    assert many.profile.timeouts.init_s == pytest.approx(14.0)
    census = many.profile.guard("census")
    assert census is not None
    assert getattr(census, "wait_s") == pytest.approx(14.0)  # noqa: B009 - a guard as the model knows it
    assert many.profile.timeouts.collective_s == few.profile.timeouts.collective_s
    assert many.start_limit_s > few.start_limit_s


def test_what_names_hosts_fits_one_number_of_ranks() -> None:
    """With another number, other ranks would be on the host that the contract names."""
    assert fixes_world(named("host-crashed"))
    assert not fixes_world(named("rank-stopped"))
    assert not fixes_world(named("link-flaps-briefly"))
