"""How long a job goes on after a fault: what is asked of the engine, and what is made of its verdicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.cost import detection
from chaoskit.cost.detection import SCENARIOS, TORCH_TIMEOUT_S, detect, production_s
from chaoskit.cost.treatments import treatment
from chaoskit.cost.values import Detection
from chaoskit.model import Outcome, Profile, Result, ScenarioResult, Status, Verdict
from chaoskit.plan import make_plan
from chaoskit.request import Observer, RunRequest, RunResult

Takes = Callable[[str, Profile], tuple[float | None, tuple[str, ...]]]


class FakeEngine:
    """Ends each arm when ``takes`` says; None: it hangs."""

    def __init__(self, takes: Takes) -> None:
        self.takes = takes
        self.asked: RunRequest | None = None

    def __call__(self, request: RunRequest, observer: Observer | None) -> RunResult:
        self.asked = request
        by_name = {profile.name: profile for profile in request.profiles}
        results = []
        for scenario in request.scenarios:
            verdicts = []
            for arm in scenario.arms:
                if arm.name not in request.arms:
                    continue
                took_s, ended_by = self.takes(scenario.name, by_name[arm.profile])
                outcome = Outcome.HUNG if took_s is None else Outcome.FAILED
                verdicts.append(
                    Verdict(
                        scenario.name,
                        arm.name,
                        1,
                        1,
                        "gloo",
                        arm.profile,
                        Status.PASS,
                        "",
                        outcome,
                        latency_s=took_s,
                        ended_by=ended_by,
                    )
                )
            results.append(ScenarioResult(scenario.name, "gloo", Result.INCONCLUSIVE, "", tuple(verdicts)))
        return RunResult(Path("runs/x"), 1, "2.13", tuple(results), 1.0)


def of(found: tuple[Detection, ...], scenario: str, name: str) -> Detection:
    return next(d for d in found if (d.scenario, d.treatment) == (scenario, name))


def by_timeout(scenario: str, profile: Profile) -> tuple[float | None, tuple[str, ...]]:
    if scenario == "rank-killed-mid-all-reduce":
        return 0.2, ("lost connection",)
    collective_s = profile.timeouts.collective_s
    assert collective_s is not None
    return collective_s + 0.4, ("collective timeout",)


def test_a_timeout_is_extrapolated_and_a_closed_socket_is_not() -> None:
    engine = FakeEngine(by_timeout)
    both = [treatment("torch-defaults"), treatment("strict")]
    found, interrupted = detect(both, "gloo", Path("runs"), 1, run=engine)
    assert not interrupted
    assert len(found) == 2 * len(SCENARIOS)
    strict = of(found, "rank-stopped", "strict")
    assert strict.measured_s == pytest.approx(3.4)
    assert strict.production_s == pytest.approx(120.4)
    assert strict.time_scale == pytest.approx(3 / 120)
    plain = of(found, "rank-stopped", "torch-defaults")
    assert plain.production_s == pytest.approx(TORCH_TIMEOUT_S["gloo"] + 0.4)
    killed = of(found, "rank-killed-mid-all-reduce", "strict")
    assert (killed.measured_s, killed.production_s) == (0.2, 0.2)


def test_noise_on_a_loaded_machine_is_not_blown_up() -> None:
    taken = iter([1.7, 2.6] * 4)
    engine = FakeEngine(lambda *_: (next(taken), ("lost connection", "group_kill")))
    found, _ = detect([treatment("torch-defaults")], "gloo", Path("runs"), 1, run=engine)
    assert [d.production_s for d in found] == [1.7] * 4


def test_a_timeout_has_its_full_length_however_the_shorter_time_was_stretched() -> None:
    """Of a busy machine: the line through the two times alone says 9.6 min of a timeout of 10."""
    taken = iter([4.25, 9.98] * 4)
    engine = FakeEngine(lambda *_: (next(taken), ("collective timeout", "group_kill")))
    found, _ = detect([treatment("recommended")], "gloo", Path("runs"), 1, run=engine)
    seen = of(found, "rank-stopped", "recommended")
    assert seen.timeout_s == 300.0
    assert seen.production_s == pytest.approx(4.25 - 3 + 300)
    assert [(e.time_scale, e.measured_s) for e in seen.endings] == [(0.01, 4.25), (0.03, 9.98)]
    assert seen.endings[0].run == seen.run != seen.endings[1].run
    assert production_s([(0.01, 5.0), (0.03, 5.1)], 300.0) == pytest.approx(302)  # as good as no growth
    assert production_s([(0.01, 4.0)], 300.0) == pytest.approx(301)  # interrupted before the second


def test_what_another_than_the_timeout_ended_has_no_least_length() -> None:
    engine = FakeEngine(lambda *_: (2.0, ("collective_check", "collective timeout")))
    found, _ = detect([treatment("strict")], "gloo", Path("runs"), 1, run=engine)
    assert {(d.timeout_s, d.production_s) for d in found} == {(None, 2.0)}


def test_a_job_that_does_not_end_has_no_time() -> None:
    engine = FakeEngine(lambda *_: (None, ("collective timeout",)))  # of some ranks: others are left
    found, _ = detect([treatment("torch-defaults")], "gloo", Path("runs"), 1, run=engine)
    told = {(d.measured_s, d.production_s, d.timeout_s, d.outcome) for d in found}
    assert told == {(None, None, None, "hung")}


@pytest.mark.parametrize("name", ["torch-defaults", "recommended", "strict", "folklore", "serialised-waits"])
def test_every_arm_can_be_planned_and_has_time_for_its_own_timeout(name: str) -> None:
    engine = FakeEngine(by_timeout if name != "folklore" else lambda *_: (None, ()))
    detect([treatment(name)], "gloo", Path("runs"), 1, run=engine)
    request = engine.asked
    assert request is not None
    profiles = {profile.name: profile for profile in request.profiles}
    for scenario in request.scenarios:
        for arm in scenario.arms:
            if arm.name not in request.arms:
                continue
            profile = profiles[arm.profile]
            plan = make_plan(scenario, arm, profile=profile, hardened_profile=profiles["reckoning"],
                             seed=1, time_scale=1.0)  # fmt: skip
            timeout_s = detection._timeout_s(profile)
            assert plan.bound_s is not None
            assert timeout_s < plan.bound_s < plan.deadline_s < 60
            assert timeout_s == pytest.approx(3.0) or timeout_s == pytest.approx(9.0)


def test_a_short_profile_is_run_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text("name: short\nsummary: s\nguards:\n  timeouts: {init: 60s, collective: 2s, store: 60s}\n")
    engine = FakeEngine(by_timeout)
    found, _ = detect([treatment(str(file))], "gloo", tmp_path, 1, run=engine)
    stopped = of(found, "rank-stopped", str(file))
    assert stopped.time_scale == 1.0
    assert stopped.production_s == stopped.measured_s == pytest.approx(2.4)


SECONDS = st.floats(1.0, 3600.0)


@given(base=SECONDS, fixed=st.floats(0.0, 1.0), times=st.floats(1.0, 3.0))
def test_what_grows_with_the_timeout_is_found_again(base: float, fixed: float, times: float) -> None:
    scales = (min(1.0, 3.0 / base), min(1.0, 9.0 / base))
    points = [(scale, fixed + times * base * scale) for scale in scales]
    found = production_s(points)
    assert found is not None
    if base > 5:
        assert found == pytest.approx(fixed + times * base, rel=1e-6)


@given(took=st.floats(0.0, 30.0), noise=st.floats(-0.7, 0.7), scale=st.floats(0.001, 0.3))
def test_what_does_not_grow_stays_as_it_was_measured(took: float, noise: float, scale: float) -> None:
    assert production_s([(scale, took), (3 * scale, took + noise)]) == took


@pytest.mark.nightly
def test_real_jobs_end_when_their_timeouts_say(shared_servers: None, tmp_path: Path) -> None:
    both = [treatment("torch-defaults"), treatment("strict")]
    found, interrupted = detect(both, "gloo", tmp_path, 3)
    assert not interrupted
    assert of(found, "rank-stopped", "torch-defaults").outcome == "hung"
    strict = of(found, "rank-stopped", "strict")
    assert strict.outcome == "failed"
    assert Path(strict.run, "verdict.json").is_file()
    plain = of(found, "rank0-skips-barrier", "torch-defaults").production_s
    assert plain == pytest.approx(1800, rel=0.5)
