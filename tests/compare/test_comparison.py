"""Two sides in, what differs out: no file is read here."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.compare.comparison import Comparison, Count, compare
from chaoskit.compare.side import Side, settings_of
from chaoskit.model import Culprit, Kind, Outcome, Result, ScenarioResult, Status, Verdict
from chaoskit.plan import make_plan
from chaoskit.reports.compare_json import exit_code
from chaoskit.scenario import load_profile, select

PASSED = Verdict(
    "s", "hardened", 1, 1, "gloo", "recommended", Status.PASS, "", Outcome.FAILED, Kind.KILLED,
    latency_s=0.1, culprits=(Culprit("rank", "1"),),
)  # fmt: skip


def scenario(
    name: str = "s", result: Result = Result.HELD, verdicts: Sequence[Verdict] = ()
) -> ScenarioResult:
    arms = tuple(dataclasses.replace(v, scenario=name) for v in verdicts or [PASSED])
    return ScenarioResult(name, "gloo", result, f"{result} because", arms)


def side(*scenarios: ScenarioResult, **known: object) -> Side:
    return Side("runs/x", scenarios, **known)  # type: ignore[arg-type]


def verdicts(*latencies_s: float, **changes: object) -> list[Verdict]:
    made = (dataclasses.replace(PASSED, repeat=n, latency_s=s) for n, s in enumerate(latencies_s, 1))
    return [dataclasses.replace(v, **changes) for v in made]  # type: ignore[arg-type]


def test_a_run_is_the_same_as_itself() -> None:
    one = side(scenario("a"), scenario("b", Result.NOT_NEEDED), scenario("c"), record=(("torch", "2.13"),))
    found = compare(one, one)
    assert found.same == 3
    assert found.same_results == (Count(Result.HELD, 2), Count(Result.NOT_NEEDED, 1))
    assert (found.scenarios, found.arms, found.differences) == ((), (), ())


@pytest.mark.parametrize("before", [*Result, None])
@pytest.mark.parametrize("after", [*Result, None])
def test_only_what_was_held_and_is_not_fails(before: Result | None, after: Result | None) -> None:
    a, b = (side(*([scenario("s", r)] if r else [])) for r in (before, after))
    found = compare(a, b)
    assert exit_code(found) == int((before, after) == (Result.HELD, Result.NOT_HELD))
    unseen = before is Result.HELD and after in (Result.INCONCLUSIVE, Result.SKIPPED, None)
    assert bool(found.lost_sight_of) == unseen
    assert bool(found.scenarios) == (before is not after)


def test_a_watched_program_counts_by_how_it_ended() -> None:
    def watched(status: Status) -> Side:
        one = dataclasses.replace(PASSED, arm="watch", status=status)
        return side(scenario("watch", Result.INCONCLUSIVE, [one]))

    found = compare(watched(Status.PASS), watched(Status.FAIL))
    assert [(s.a, s.b) for s in found.broke] == [(Result.HELD, Result.NOT_HELD)]


def test_scenarios_are_told_apart_by_their_backend() -> None:
    nccl = dataclasses.replace(scenario(), backend="nccl")
    found = compare(side(scenario()), side(scenario(), nccl))
    assert [(s.name, s.backend, s.a, s.b) for s in found.scenarios] == [("s", "nccl", None, Result.HELD)]


def test_another_culprit_is_told_though_the_result_is_the_same() -> None:
    other = scenario(verdicts=verdicts(0.1, 0.1, culprits=(Culprit("rank", "2"),)))
    found = compare(side(scenario(verdicts=verdicts(0.1, 0.1))), side(other))
    assert found.scenarios == ()
    assert found.same == 0
    (arm,) = found.arms
    assert arm.culprits_changed
    assert [(s.culprits, s.count) for s in (*arm.a, *arm.b)] == [(("rank 1",), 2), (("rank 2",), 2)]


def test_the_last_attempt_counts() -> None:
    first = dataclasses.replace(PASSED, status=Status.INCONCLUSIVE, outcome=Outcome.NOT_INJECTED)
    again = dataclasses.replace(PASSED, attempt=2)
    assert compare(side(scenario(verdicts=[first, again])), side(scenario())).arms == ()


def test_latencies_of_repeats_are_compared() -> None:
    a = scenario(verdicts=verdicts(0.1, 0.11, 0.12, 0.1, 0.11, 0.12))
    b = scenario(verdicts=verdicts(0.3, 0.31, 0.32, 0.3, 0.31, 0.32))
    (pair,) = compare(side(a), side(b)).latencies
    assert (pair.said, pair.a_count, pair.b_count) == ("slower", 6, 6)
    (pair,) = compare(side(a), side(scenario())).latencies
    assert (pair.said, pair.b_s) == ("too_few", 0.1)


@pytest.mark.parametrize(
    ("name", "said"),
    [("time scale", "not_comparable"), ("ranks", "not_comparable"), ("hosts", "not_comparable"),
     ("launcher", "not_comparable"), ("profile", "slower"), ("faults", "slower")],
)  # fmt: skip
def test_latencies_measured_under_other_conditions_are_not_compared(name: str, said: str) -> None:
    key = ("s", "gloo", "hardened")
    a = scenario(verdicts=verdicts(0.1, 0.11, 0.12, 0.1, 0.11, 0.12))
    b = scenario(verdicts=verdicts(0.3, 0.31, 0.32, 0.3, 0.31, 0.32, production_bound_s=9.0))
    of_a, of_b = ({key: (("x", "1"), (name, value))} for value in ("4", "2"))
    (pair,) = compare(side(a, settings=of_a), side(b, settings=of_b)).latencies
    assert pair.said == said
    assert (pair.ratio is None) == (said == "not_comparable")
    assert [(c.name, c.a, c.b) for c in pair.conditions] == ([] if name == "faults" else [(name, "4", "2")])
    assert (pair.a_production_bound_s, pair.b_production_bound_s) == (None, 9.0)


@pytest.mark.parametrize("before", [Result.INCONCLUSIVE, Result.HELD])
def test_an_arm_that_passed_and_fails_is_counted_though_its_scenario_was_never_held(before: Result) -> None:
    failed = dataclasses.replace(PASSED, status=Status.FAIL)
    a, b = scenario(result=before), scenario(result=Result.NOT_HELD, verdicts=[failed])
    found = compare(side(a), side(b))
    assert (len(found.now_failing), len(found.broke), found.held_in_a) == (
        (0, 1, 1) if before is Result.HELD else (1, 0, 0)
    )
    assert compare(side(b), side(a)).now_failing == ()


def test_a_setting_that_all_arms_have_is_one_difference() -> None:
    keys = [("a", "gloo", "control"), ("a", "gloo", "hardened"), ("b", "gloo", "hardened")]
    of_a = dict.fromkeys(keys, (("ranks", "4"), ("profile", "x")))
    of_b = {key: (("ranks", "8"), ("profile", "y" if key[2] == "hardened" else "x")) for key in keys}
    found = compare(side(settings=of_a), side(settings=of_b)).differences
    assert [(d.name, d.a, d.b, d.everywhere, d.every) for d in found] == [
        ("ranks", "4", "8", True, ""), ("profile", "x", "y", False, "hardened"),
    ]  # fmt: skip
    assert found[1].arms == ("a hardened", "b hardened")


def test_versions_and_variables_that_differ() -> None:
    a = side(record=(("torch", "2.12"), ("seed", "1")), environment=(("NCCL_DEBUG", "INFO"),))
    b = side(record=(("torch", "2.13"), ("seed", "1")), environment=(("NCCL_IB_HCA", "mlx5"),))
    found = [(d.of, d.name, d.a, d.b) for d in compare(a, b).differences]
    assert found == [
        ("record", "torch", "2.12", "2.13"),
        ("environment", "NCCL_DEBUG", "INFO", None),
        ("environment", "NCCL_IB_HCA", None, "mlx5"),
    ]
    assert compare(a, side(has_record=False)).differences == (), "what is not known does not differ"


def test_the_settings_of_a_plan_are_those_of_production() -> None:
    (one,) = select(["rank-killed-mid-all-reduce"])
    strict = load_profile("strict")
    plans = [
        make_plan(one, "hardened", profile=strict, hardened_profile=strict, seed=seed, time_scale=scale)
        for seed, scale in ((1, 0.01), (2, 0.3))
    ]
    first, second = (dict(settings_of(plan)) for plan in plans)
    assert {name for name in first if first[name] != second[name]} == {"time scale"}
    assert first["profile"] == "strict"
    assert (first["ranks"], first["hosts"], first["launcher"]) == ("4", "1", "forkserver")
    assert "collective_s=" in first["guard timeouts"]


results = st.sampled_from(Result)
runs = st.dictionaries(st.sampled_from("abcdef"), results)


@given(runs, runs)
def test_everything_is_either_the_same_or_told(a: dict[str, Result], b: dict[str, Result]) -> None:
    def of(run: dict[str, Result]) -> Side:
        return side(*(scenario(name, result) for name, result in run.items()))

    found: Comparison = compare(of(a), of(b))
    assert found.same + len(found.scenarios) == len({*a, *b})
    back = compare(of(b), of(a))
    assert {(s.name, s.a, s.b) for s in found.scenarios} == {(s.name, s.b, s.a) for s in back.scenarios}
