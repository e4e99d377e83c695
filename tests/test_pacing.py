"""When an arm is looked at, and what its limits mean."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

from chaoskit.model import Plan, Workload
from chaoskit.pacing import LAUNCH_LIMIT_S, STILL_S, Clock
from chaoskit.plan import make_plan
from chaoskit.scenario import load_profile
from chaoskit.scenario import select as chosen

pytestmark = pytest.mark.timeout(300)


def plan_of(name: str, **changes: Any) -> Plan:
    scenario = chosen([name])[0]
    strict, bare = load_profile("strict"), load_profile("torch-defaults")
    plan = make_plan(scenario, "control", profile=bare, hardened_profile=strict, seed=1)
    return dataclasses.replace(plan, **changes)


def program_plan(stall_s: float, **changes: Any) -> Plan:
    program = Workload("train.py", kind="script", target="/train.py")
    return plan_of("long-step", workload=program, stall_s=stall_s, **changes)


class Time:
    """A clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def looks_until_due(clock: Clock, at: Time, limit: int = 1000) -> list[float]:
    looks: list[float] = []
    while not clock.due(anyone=True):
        assert len(looks) < limit
        at.now = max(at.now, clock.next_look)
        looks.append(at.now)
        clock.looked(at.now)
    return looks


def test_looks_come_before_the_limit_and_enough_of_them(at: Time) -> None:
    clock = Clock(plan_of("long-step", start_limit_s=30.0), at.now)
    looks = looks_until_due(clock, at)
    assert looks[-1] == clock.limit == 130.0
    assert looks[0] >= clock.limit - 2 * STILL_S


def test_on_a_slow_machine_the_decision_waits_for_looks(at: Time) -> None:
    clock = Clock(plan_of("long-step", start_limit_s=30.0), at.now)
    at.now = 140.0  # we did not run for long
    looks = looks_until_due(clock, at)
    assert len(looks) >= 3
    assert looks[-1] - looks[-3] > 0.9 * STILL_S


def test_the_deadline_counts_from_the_last_fault_that_fired(at: Time) -> None:
    plan = plan_of("rank-stopped")
    clock = Clock(plan, at.now)
    assert clock.limit == 100.0 + plan.start_limit_s
    at.now = 101.0
    clock.update([0, 1, 0, 0])
    assert clock.limit == 101.0 + plan.deadline_s
    at.now = 102.0
    clock.update([0, 1, 0, 0])
    assert clock.limit == 101.0 + plan.deadline_s, "nothing new"
    clock.update([0, 1, 1, 0])
    assert clock.limit == 102.0 + plan.deadline_s
    assert clock.may_go_on(at.now)
    assert clock.go_on(at.now) == 2 * plan.deadline_s
    assert (clock.limit, clock.may_go_on(at.now)) == (102.0 + 2 * plan.deadline_s, False), "once only"


def test_a_program_is_judged_over_the_whole_time_without_progress(at: Time) -> None:
    clock = Clock(program_plan(20.0), at.now)
    looks = looks_until_due(clock, at)
    assert looks[-1] - looks[0] >= 0.99 * 20.0, "no decision from less than what was allowed"
    assert clock.over_s == 20.0
    assert clock.may_go_on(at.now) and clock.go_on(at.now) == 0.0
    for _ in range(100):
        at.now = clock.next_look
        clock.looked(at.now)
    assert clock.due(anyone=True) and clock.may_go_on(at.now), "as long as it moves, there is no limit"


def test_a_fault_in_a_program_starts_its_deadline(at: Time) -> None:
    plan = program_plan(60.0, healthy=False)
    clock = Clock(plan, at.now)
    at.now = 400.0
    clock.update([1, 0, 0, 0])
    assert (clock.limit, clock.over_s) == (400.0 + plan.deadline_s, 0.0)


def test_the_users_own_limit_ends_a_program_that_moves(at: Time) -> None:
    clock = Clock(program_plan(5.0, timeout_s=30.0), at.now)
    while at.now < 130.0:
        at.now = clock.next_look
        clock.looked(at.now)
    assert at.now == pytest.approx(130.0)
    assert clock.due(anyone=True)
    assert not clock.may_go_on(at.now)


def test_a_launcher_that_starts_no_rank_is_given_up(at: Time) -> None:
    clock = Clock(program_plan(5.0), at.now)
    at.now += LAUNCH_LIMIT_S - 1
    assert not clock.due(anyone=False)
    at.now += 2
    assert clock.due(anyone=False)
    assert clock.nobody_came and not clock.may_go_on(at.now)
