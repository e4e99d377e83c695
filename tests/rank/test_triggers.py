"""Counting: which occurrence a trigger means."""

from __future__ import annotations

import math

import pytest

from chaoskit.faults import RankFault
from chaoskit.faults.kill import Kill
from chaoskit.faults.slow import Slow
from chaoskit.model import Injection, Phase, Trigger
from chaoskit.rank.triggers import Shot, shots_of, wrap_call


def shot(when: Trigger, fault: RankFault | None = None) -> Shot:
    return shots_of((Injection(fault or Kill((0,)), when),), 0)[0]


def test_the_nth_of_its_group_is_due_once() -> None:
    it = shot(Trigger("collective", op="all_reduce", nth=2))
    asked = [it.due("default"), it.due("left"), it.due("default"), it.due("default")]
    assert asked == [False, False, True, False]


def test_with_a_step_the_count_is_within_that_step() -> None:
    it = shot(Trigger("collective", op="all_reduce", nth=2, step=3))
    asked = [(step, it.due("default", step)) for step in (1, 1, 2, 2, 3, 3, 3, 4)]
    assert [a for a in asked if a[1]] == [(3, True)]
    assert asked[5] == (3, True)


def test_a_lasting_fault_is_due_from_the_nth_on() -> None:
    it = shot(Trigger("collective", op="all_reduce", nth=2), Slow((0,), 0.1))
    assert [it.due("default") for _ in range(4)] == [False, True, True, True]


def test_who_is_no_target_may_have_to_wait_during_only() -> None:
    during = Injection(Kill((1,)), Trigger("collective", op="all_reduce", phase=Phase.DURING))
    before = Injection(Kill((1,)), Trigger("collective", op="all_reduce"))
    assert [(s.index, s.holds) for s in shots_of((before, during), 0)] == [(1, True)]
    assert [(s.index, s.holds) for s in shots_of((before, during), 1)] == [(0, False), (1, False)]


@pytest.mark.parametrize(("phase", "order"), [("before", "f1"), ("after", "1f")])
def test_a_function_is_wrapped_where_its_module_has_it(
    phase: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(math, "cbrt", lambda x: seen.append(str(x)))
    wrap_call(shot(Trigger("call", call="math.cbrt", nth=2, phase=Phase(phase))), lambda _: seen.append("f"))
    math.cbrt(0)
    math.cbrt(1)
    math.cbrt(2)
    assert "".join(seen) == f"0{order}2"


@pytest.mark.parametrize("name", ["no_such_module.f", "math.no_such", "math.pi.no_such", "bare"])
def test_a_name_that_is_none_raises(name: str) -> None:
    with pytest.raises((ImportError, AttributeError)):
        wrap_call(shot(Trigger("call", call=name)), lambda _: None)
