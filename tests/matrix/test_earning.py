"""A cell is never called held unless that was earned, in every repeat."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.matrix.earning import Promise, earned, ended_in_time, left_a_trace, without_guard
from chaoskit.matrix.values import Mark
from chaoskit.model import Outcome, Status, Verdict

Make = Callable[..., Verdict]
FAULT = Promise("rank-stopped", "gloo", healthy=False)
TWIN = Promise("rank-slow", "gloo", healthy=True)
BITING = Verdict(
    "s", "control", 1, 1, "gloo", "torch-defaults", Status.PASS, "told", Outcome.HUNG, bites=True, bound_s=5.0
)


def test_held_is_a_kept_contract_that_is_broken_without_any_guard(verdict: Make, control: Make) -> None:
    assert earned(FAULT, [control()], [verdict()])[0] is Mark.HELD


@pytest.mark.parametrize(
    ("changes", "mark"),
    [
        ({"bites": False}, Mark.NOT_NEEDED),
        ({"bites": None}, Mark.INCONCLUSIVE),
        ({"status": Status.FAIL}, Mark.INCONCLUSIVE),
        ({"status": Status.INCONCLUSIVE}, Mark.INCONCLUSIVE),
        ({"status": Status.SKIPPED, "outcome": None}, Mark.INCONCLUSIVE),
    ],
)
def test_a_pass_is_worth_what_the_control_says(
    verdict: Make, control: Make, changes: dict[str, object], mark: Mark
) -> None:
    assert earned(FAULT, [control(**changes)], [verdict()])[0] is mark


def test_without_a_control_nothing_is_earned(verdict: Make) -> None:
    assert earned(FAULT, [], [verdict()])[0] is Mark.INCONCLUSIVE


def test_repeats_that_differ_are_unsteady(verdict: Make, control: Make) -> None:
    controls = [control(repeat=n) for n in (1, 2, 3)]
    fail = verdict(repeat=2, status=Status.FAIL, reason="late")
    mark, reason = earned(FAULT, controls, [verdict(), fail, verdict(repeat=3)])
    assert mark is Mark.UNSTEADY
    assert "2 × pass, 1 × fail" in reason and "late" in reason


def test_a_control_that_bites_now_and_then_makes_no_cell_held(verdict: Make, control: Make) -> None:
    controls = [control(), control(repeat=2, bites=False)]
    assert without_guard(FAULT, controls)[0] is Mark.UNSTEADY
    assert earned(FAULT, controls, [verdict(), verdict(repeat=2)])[0] is Mark.INCONCLUSIVE


def test_a_profile_that_breaks_what_held_without_it_is_not_held(verdict: Make, control: Make) -> None:
    mark, _ = earned(FAULT, [control(bites=False)], [verdict(status=Status.FAIL, outcome=Outcome.HUNG)])
    assert mark is Mark.NOT_HELD


def test_a_twin_that_completes_is_quiet_and_one_that_does_not_is_a_false_alarm(
    verdict: Make, control: Make
) -> None:
    well = {"outcome": Outcome.COMPLETED, "bites": False}
    assert earned(TWIN, [control(**well)], [verdict(**well)])[0] is Mark.QUIET
    ended = verdict(status=Status.FAIL, outcome=Outcome.FAILED)
    assert earned(TWIN, [control(**well)], [ended])[0] is Mark.FALSE_ALARM
    assert earned(TWIN, [control(status=Status.FAIL)], [ended])[0] is Mark.INCONCLUSIVE


def test_a_fault_that_does_no_harm_is_inconclusive(verdict: Make, control: Make) -> None:
    done = {"outcome": Outcome.COMPLETED}
    assert earned(FAULT, [control(**done)], [verdict(**done)])[0] is Mark.INCONCLUSIVE


def test_ended_in_time_asks_for_every_repeat(verdict: Make) -> None:
    assert ended_in_time([verdict(), verdict(repeat=2)])
    assert not ended_in_time([verdict(), verdict(repeat=2, latency_s=5.1)])
    assert not ended_in_time([verdict(outcome=Outcome.HUNG, latency_s=None)])
    assert not ended_in_time([])


def test_a_trace_is_what_ended_the_job(verdict: Make) -> None:
    assert left_a_trace("fail_fast", verdict(ended_by=("collective timeout", "fail_fast")))
    assert left_a_trace("timeouts", verdict(ended_by=("collective timeout",)))
    assert not left_a_trace("checkpoint", verdict(ended_by=("lost connection",)))
    assert not left_a_trace("timeouts", verdict())


_verdicts = st.builds(
    Verdict,
    scenario=st.just("s"), arm=st.just("profile"), repeat=st.just(1), attempt=st.just(1),
    backend=st.just("gloo"), profile=st.just("p"), status=st.sampled_from(Status), reason=st.just("told"),
    outcome=st.sampled_from([*Outcome, None]), bites=st.sampled_from([True, False, None]),
)  # fmt: skip


@given(st.lists(_verdicts, max_size=3), st.lists(_verdicts, max_size=3), st.booleans(), st.booleans())
def test_whatever_came_good_news_is_earned(
    controls: list[Verdict], verdicts: list[Verdict], healthy: bool, completes: bool
) -> None:
    as_controls = [BITING.__class__(**{**_fields(c), "arm": "control"}) for c in controls]
    mark, _ = earned(Promise("s", "gloo", healthy, completes), as_controls, verdicts)
    if mark is Mark.HELD:
        assert not healthy and as_controls and verdicts
        assert all(c.bites and c.status is Status.PASS for c in as_controls)
        assert all(v.status is Status.PASS for v in verdicts)
    if mark is Mark.QUIET:
        assert healthy and as_controls and verdicts
        assert all(v.outcome is Outcome.COMPLETED for v in (*as_controls, *verdicts) if v is not None)


def _fields(verdict: Verdict) -> dict[str, object]:
    return {name: getattr(verdict, name) for name in verdict.__slots__}
