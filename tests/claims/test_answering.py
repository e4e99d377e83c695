"""What runs with and without a setting say of a claim: rules on plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.claims import answering, wording
from chaoskit.claims.answering import Files
from chaoskit.claims.arms import benches
from chaoskit.claims.values import REPEATS_MIN, Answer, Claim, Run, Setting, Trial, TrialFinding
from chaoskit.faults.stop import Stop
from chaoskit.model import (
    Expectation,
    Injection,
    Outcome,
    RankEnd,
    Scenario,
    Span,
    Status,
    Topology,
    Trigger,
    Verdict,
    Workload,
)

FAILS = Expectation((("gloo", Outcome.FAILED),), within=Span(plus_s=4.0), exit="nonzero")
COMPLETES = Expectation((("gloo", Outcome.COMPLETED),), exit="zero")
SETTING = Setting(env=(("SOME_VARIABLE", "1"),))
STOPPED = Injection(Stop((1,)), Trigger("collective", "all_reduce", 6))


def scenario(*, healthy: bool = False, injections: tuple[Injection, ...] = ()) -> Scenario:
    return Scenario(
        "told-of", "", "claims", Workload("all-reduce-loop"), Topology(), injections, (), healthy=healthy
    )


def claim(expect: Expectation = FAILS, *, setting: Setting = SETTING, healthy: bool = False) -> Claim:
    return Claim("it", "it helps", ("a page",), (Trial(scenario(healthy=healthy), expect),), setting)


def run(outcome: Outcome = Outcome.FAILED, latency_s: float | None = 1.0, *, kept: bool | None = True) -> Run:
    codes = {Outcome.FAILED: 1, Outcome.COMPLETED: 0, Outcome.CORRUPTED: 0}
    exits = tuple((rank, codes.get(outcome)) for rank in range(4))
    return Run(outcome, latency_s, exits, (), kept, True, "" if kept is not None else "unproved", Path())


def thrice(one: Run) -> list[Run]:
    return [one] * REPEATS_MIN


HUNG = run(Outcome.HUNG, None, kept=False)
CRASHED, COMPLETED = run(kept=False), run(Outcome.COMPLETED)


@pytest.mark.parametrize(
    ("with_it", "without", "healthy", "answer"),
    [
        (run(), HUNG, False, Answer.TRUE),
        (HUNG, HUNG, False, Answer.NO_EFFECT),
        (run(), run(), False, Answer.NO_EFFECT),
        (run(latency_s=1.0), run(latency_s=3.9), False, Answer.NOT_NEEDED),
        (run(Outcome.CORRUPTED, kept=False), HUNG, False, Answer.NOT_SO),
        (COMPLETED, COMPLETED, True, Answer.HARMLESS),
        (CRASHED, COMPLETED, True, Answer.HARMFUL),
        (COMPLETED, CRASHED, True, Answer.UNCLEAR),
        (run(kept=None), HUNG, False, Answer.UNCLEAR),
    ],
)
def test_a_trial_s_answer_follows_from_both_arms(
    with_it: Run, without: Run, healthy: bool, answer: Answer
) -> None:
    asked = claim(COMPLETES if healthy else FAILS, healthy=healthy)
    found, _ = answering.judge(thrice(with_it), thrice(without), asked, asked.trials[0])
    assert found is answer


def test_without_a_setting_only_what_came_counts() -> None:
    asked = claim(setting=Setting())
    assert answering.judge(thrice(run()), [], asked, asked.trials[0])[0] is Answer.TRUE
    assert answering.judge(thrice(HUNG), [], asked, asked.trials[0])[0] is Answer.NOT_SO


@pytest.mark.parametrize("short", ["with", "without"])
def test_fewer_than_three_runs_are_no_answer(short: str) -> None:
    asked = claim()
    with_it, without = thrice(run()), thrice(HUNG)
    (with_it if short == "with" else without).pop()
    answer, why = answering.judge(with_it, without, asked, asked.trials[0])
    assert answer is Answer.UNCLEAR
    assert "fewer than 3 runs" in why


@given(st.lists(st.sampled_from([run(), HUNG]), min_size=3, max_size=6))
def test_runs_that_differ_are_never_an_answer(runs: list[Run]) -> None:
    asked = claim()
    answer, _ = answering.judge(runs, thrice(HUNG), asked, asked.trials[0])
    assert (answer is Answer.UNSTEADY) == (len({r.outcome for r in runs}) > 1)


_TIMES = st.lists(st.floats(0.1, 3.0), min_size=3, max_size=5)


@given(_TIMES, _TIMES)
def test_times_that_overlap_are_no_effect(one: list[float], other: list[float]) -> None:
    first, second = ([run(latency_s=value) for value in values] for values in (one, other))
    overlap = max(min(one), min(other)) <= min(max(one), max(other))
    assert answering.alike(first, second) == answering.alike(second, first)
    if overlap:
        assert answering.alike(first, second)


def test_another_exit_code_is_another_end() -> None:
    killed = dataclasses.replace(run(), exits=((0, 1), (1, -15)))
    assert not answering.alike(thrice(run()), thrice(killed))


@pytest.mark.parametrize(
    ("answers", "together"),
    [
        ((Answer.TRUE, Answer.HARMFUL), Answer.HARMFUL),
        ((Answer.TRUE, Answer.UNSTEADY), Answer.UNSTEADY),
        ((Answer.TRUE, Answer.NO_EFFECT, Answer.HARMLESS), Answer.PARTLY),
        ((Answer.NO_EFFECT, Answer.NOT_NEEDED), Answer.NOT_SO),
        ((Answer.NO_EFFECT, Answer.NO_EFFECT), Answer.NO_EFFECT),
        ((Answer.NOT_SO, Answer.NO_EFFECT), Answer.NOT_SO),
        ((Answer.HARMLESS, Answer.HARMLESS), Answer.HARMLESS),
        ((Answer.NOT_RUN, Answer.TRUE), Answer.TRUE),
        ((Answer.NOT_RUN, Answer.NOT_RUN), Answer.NOT_RUN),
    ],
)
def test_harm_comes_first_and_what_was_not_run_says_nothing(
    answers: tuple[Answer, ...], together: Answer
) -> None:
    assert answering.combined([(answer, False) for answer in answers]) is together


def test_what_comes_everywhere_and_anyway_is_not_needed() -> None:
    assert answering.combined([(Answer.NO_EFFECT, True), (Answer.NOT_NEEDED, True)]) is Answer.NOT_NEEDED


def test_unsteady_says_what_differs() -> None:
    asked = claim()
    with_it = [run(), run(), run(kept=False)]
    said = wording.of_trial(Answer.UNSTEADY, with_it, thrice(HUNG), asked.trials[0])
    assert said.endswith("(with it what is told came in 2 of 3 runs)")


# ---------------------------------------------------------------- from verdicts


def verdict(arm: str, ends: Sequence[RankEnd], outcome: Outcome | None, **more: object) -> Verdict:
    made = Verdict("told-of", arm, 1, 1, "gloo", arm, Status.PASS, "told", outcome, ranks=tuple(ends))
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


FILES = Files(lambda v: Path(v.arm), lambda folder, text: text in str(folder))


def test_of_a_stopped_rank_the_others_are_spoken_of() -> None:
    trial = Trial(scenario(injections=(STOPPED,)), FAILS, others=True)
    ends = [RankEnd(rank, 1, 3.0 + rank / 10) for rank in (0, 2, 3)]
    seen = answering.seen(verdict("it", [*ends, RankEnd(1, None, None)], Outcome.HUNG), trial, FILES)
    assert (seen.outcome, seen.latency_s, seen.kept) == (Outcome.FAILED, 3.3, True)
    assert [rank for rank, _ in seen.exits] == [0, 2, 3]
    whole = dataclasses.replace(trial, others=False)
    seen = answering.seen(verdict("it", [*ends, RankEnd(1, None, None)], Outcome.HUNG), whole, FILES)
    assert (seen.outcome, seen.kept) == (Outcome.HUNG, False)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, True),
        ({"latency_s": 4.1}, False),
        ({"latency_s": None}, False),
        ({"outcome": Outcome.HUNG}, False),
        ({"ranks": (RankEnd(0, 0, 1.0),)}, False),
    ],
)
def test_what_is_told_comes_only_as_told(changes: dict[str, object], kept: bool) -> None:
    one = verdict("it", [RankEnd(0, 1, 1.0)], Outcome.FAILED, latency_s=1.0)
    trial = Trial(scenario(), FAILS)
    assert answering.seen(dataclasses.replace(one, **changes), trial, FILES).kept is kept  # type: ignore[arg-type]


def test_a_text_that_is_to_be_printed_is_looked_for() -> None:
    one = verdict("says-so", [RankEnd(0, 1, 1.0)], Outcome.FAILED, latency_s=1.0)
    trial = Trial(scenario(), FAILS, prints="says")
    assert answering.seen(one, trial, FILES).kept
    assert not answering.seen(dataclasses.replace(one, arm="silent"), trial, FILES).kept


def test_a_fault_that_did_not_fire_shows_nothing() -> None:
    unclear = {"status": Status.INCONCLUSIVE, "reason": "never came"}
    one = verdict("it", [RankEnd(0, 0, 1.0)], Outcome.NOT_INJECTED, **unclear)
    seen = answering.seen(one, Trial(scenario(), FAILS), FILES)
    assert (seen.kept, seen.unclear) == (None, "never came")


@pytest.mark.parametrize(("healthy", "kept"), [(True, False), (False, None)])
def test_a_healthy_job_that_a_signal_ends_is_an_observation(healthy: bool, kept: bool | None) -> None:
    doubt = {"status": Status.INCONCLUSIVE, "reason": "signal 11"}
    one = verdict("it", [RankEnd(0, -11, 1.0)], Outcome.FAILED, **doubt)
    assert answering.seen(one, Trial(scenario(healthy=healthy), COMPLETES), FILES).kept is kept


def test_the_last_attempt_counts_and_a_skip_is_told() -> None:
    asked = claim()
    chosen = benches([asked], ["gloo"])
    lost = [
        verdict(arm, [], None, status=Status.SKIPPED, reason="no network", repeat=n)
        for arm in ("control", "it")
        for n in (1, 2, 3)
    ]
    (finding,) = answering.find([asked], chosen, lost, FILES, ["gloo"])
    assert (finding.answer, finding.says) == (Answer.NOT_RUN, "not run here: no network")
    hung = [dataclasses.replace(v, status=Status.PASS, outcome=Outcome.HUNG, attempt=2) for v in lost]
    (finding,) = answering.find([asked], chosen, [*lost, *hung], FILES, ["gloo"])
    assert finding.answer is Answer.NO_EFFECT


# ---------------------------------------------------------------- words


def test_an_end_is_told_with_its_span_and_signal() -> None:
    trial = claim().trials[0]
    runs = [dataclasses.replace(run(latency_s=s), exits=((0, -11), (1, 1))) for s in (1.0, 1.204)]
    assert wording.of_runs(runs, trial) == "ended after 1.00–1.20 s, signal 11 (SIGSEGV); exit 1"


def test_runs_that_differ_are_counted() -> None:
    said = wording.of_runs([run(), HUNG, HUNG], claim().trials[0])
    assert said == "2 of 3: not ended within 4 s, and nothing moves, 1 of 3: ended after 1.00 s, exit 1"


def test_only_some_ranks_that_stay_are_named() -> None:
    partly = dataclasses.replace(HUNG, exits=((0, None), (2, 1), (3, 1)))
    said = wording.of_runs(thrice(partly), claim().trials[0])
    assert said == "rank 0 not ended within 4 s, and nothing moves; the rest ended, exit 1"


@pytest.mark.parametrize(("spread", "told"), [(0.0, "Between these two: 2.0 T + 0.5 s"), (1.0, "")])
def test_how_the_end_follows_the_timeout_is_told_only_where_it_is_steady(spread: float, told: str) -> None:
    trials = [
        TrialFinding(
            "s", f"T = {t:g} s", t, False, Answer.TRUE, "seen", None, False, (),
            tuple(run(latency_s=2 * t + 0.5 + extra) for extra in (0.0, 0.0, spread)),
        )
        for t in (4.0, 6.0)
    ]  # fmt: skip
    assert wording.of_claim(trials).partition(". ")[2] == told
