"""The sentence on a treatment: it says no more than was measured, whatever was."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.cost.sentence import percent, price, sentence, sentences
from chaoskit.cost.values import Case, Comparison, Detection, Estimate

DDP = Case("ddp", "ddp 8 × 1 MiB", nbytes=1 << 20)
PROGRAM = Case("program", "train.py")
SMALL = Case("collective", "all_reduce 8 B", "all_reduce", 8)
LARGE = Case("collective", "all_reduce 1 MiB", "all_reduce", 1 << 20)


def estimate(ratio: float, low: float, high: float) -> Estimate:
    return Estimate(ratio, low, high, 0.01, 0.01 * ratio, 100, 8)


def comparison(
    found: Estimate | None, case: Case = DDP, problem: str = "", says: str = "the profile strict"
) -> Comparison:
    return Comparison("strict", says, "torch-defaults", case, "process", found, problem)


def detection(who: str, scenario: str, measured: float | None, production: float | None) -> Detection:
    outcome = "hung" if production is None else "failed"
    return Detection(who, scenario, measured, production, 10.0, 0.01, outcome)


def test_a_price_with_its_interval_and_what_it_buys() -> None:
    found = [comparison(estimate(1.031, 1.028, 1.034), PROGRAM, says="blocking wait")]
    seen = [
        detection("torch-defaults", "rank0-skips-barrier", 3.4, 1800.7),
        detection("strict", "rank0-skips-barrier", 3.4, 120.2),
        detection("torch-defaults", "rank-stopped", None, None),
        detection("strict", "rank-stopped", 1.1, 31.0),
        detection("torch-defaults", "rank-killed-mid-all-reduce", 0.2, 0.2),
        detection("strict", "rank-killed-mid-all-reduce", 0.1, 0.1),
    ]
    assert sentence(found, seen) == (
        "On this machine, blocking wait costs 3.1 % [2.8, 3.4] on your program train.py, and shortens"
        " detection by about 28 min (a skipped collective: about 2 min instead of about 30 min), and ends a"
        " job that did not end otherwise (a stopped rank: about 31 s)."
    )


def test_no_difference_is_called_none() -> None:
    said = sentence([comparison(estimate(1.004, 0.994, 1.008))])
    assert said == (
        "On this machine, the profile strict: no difference measurable beyond 0.80 % on a DDP model"
        " (8 × 1 MiB)."
    )


def test_a_large_price_is_told_as_times_and_a_saving_as_such() -> None:
    assert price(comparison(estimate(2.41, 2.35, 2.5), SMALL)) == (
        "takes 2.41 × [2.35, 2.50] the time in all_reduce 8 B"
    )
    assert price(comparison(estimate(0.9, 0.88, 0.93), SMALL)) == "saves 10 % [7.0, 12] in all_reduce 8 B"


def test_what_could_not_be_timed_says_why_and_not_all_that_a_rank_said() -> None:
    broken = comparison(None, problem="rank 0 was ended by SIGSEGV; rank 0 said: " + "x" * 500)
    assert sentence([broken]) == (
        "The profile strict could not be timed on a DDP model (8 × 1 MiB): rank 0 was ended by SIGSEGV."
    )


def test_many_sizes_come_to_the_dearest_and_how_many_show_nothing() -> None:
    found = [
        comparison(estimate(1.4, 1.3, 1.5), SMALL),
        comparison(estimate(1.001, 0.98, 1.02), LARGE),
        comparison(None, Case("collective", "all_reduce 1 GiB", "all_reduce", 1 << 30), "too large"),
    ]
    assert sentence(found) == (
        "On this machine, the profile strict costs at most 50 % (40 % [30, 50] in all_reduce 8 B); in 1 of 2"
        " cases no difference is measurable beyond 2.0 % (1 of 3 could not be timed)."
    )
    none = [comparison(estimate(1.0, 0.99, 1.01), SMALL), comparison(estimate(1.0, 0.98, 1.01), LARGE)]
    assert "no difference measurable beyond 2.0 % in any of 2 cases" in sentence(none)


def test_of_many_the_upper_ends_are_the_bound_and_not_the_points() -> None:
    found = [
        comparison(estimate(1.41, 1.35, 1.47), SMALL),
        comparison(estimate(1.2, 1.01, 1.9), LARGE),
    ]
    assert "costs at most 90 % (20 % [1.0, 90] in all_reduce 1 MiB)." in sentence(found)
    saved = [comparison(estimate(0.9, 0.8, 0.95), SMALL), comparison(estimate(0.85, 0.84, 0.86), LARGE)]
    assert "saves at most 20 % (10 % [5.0, 20] in all_reduce 8 B)." in sentence(saved)


def test_of_too_few_starts_or_too_much_noise_nothing_is_said() -> None:
    few = dataclasses.replace(estimate(1.88, 1.7, 2.12), launches=1)
    said = sentence([comparison(few)])
    assert said == (
        "On this machine, the profile strict: too few starts to say anything (1 of at least 3) on a DDP model"
        " (8 × 1 MiB): a longer --budget helps."
    )
    seen = [detection("torch-defaults", "rank-stopped", 3.4, 1800.0),
            detection("strict", "rank-stopped", 3.4, 120.0)]  # fmt: skip
    assert sentence([comparison(few)], seen).endswith(
        "(8 × 1 MiB): a longer --budget helps; the profile strict shortens detection by about 28 min"
        " (a stopped rank: about 2 min instead of about 30 min)."
    )
    noisy = estimate(1.1, 0.7, 1.3)
    assert "too noisy to say anything (± 30 %) on a DDP model (8 × 1 MiB): a longer --budget" in sentence(
        [comparison(noisy)]
    )
    many = [comparison(few, SMALL), comparison(noisy, LARGE), comparison(estimate(1.0, 0.99, 1.01), SMALL)]
    assert sentence(many).endswith(
        "no difference measurable beyond 1.0 % in all_reduce 8 B; of 2 of 3 cases nothing can be said"
        " (too few starts, or too noisy)."
    )
    assert "of 2 of 2 cases nothing can be said" in sentence(many[:2])


def test_steps_of_a_model_say_more_than_bare_collectives() -> None:
    found = [comparison(estimate(1.4, 1.3, 1.5), SMALL), comparison(estimate(1.03, 1.02, 1.04))]
    assert "costs 3.0 % [2.0, 4.0] on a DDP model" in sentence(found)


@pytest.mark.parametrize(
    ("mine", "plain", "said"),
    [
        ((None, None), (3.0, 1800.0), "no longer ends a job with a stopped rank"),
        ((3.0, 300.0), (1.0, 30.0), "ends a job later (a stopped rank: about 5 min)"),
        ((0.3, 0.3), (0.4, 0.4), "shortens no detection"),
        ((None, None), (None, None), "ends none of the jobs with a fault"),
    ],
)
def test_detection_that_is_no_better_is_told_too(
    mine: tuple[float | None, float | None], plain: tuple[float | None, float | None], said: str
) -> None:
    seen = [detection("torch-defaults", "rank-stopped", *plain), detection("strict", "rank-stopped", *mine)]
    assert sentence([comparison(estimate(1.03, 1.02, 1.04))], seen).endswith(f", and {said}.")


def test_what_was_never_run_is_no_job_that_did_not_end() -> None:
    skipped = dataclasses.replace(detection("torch-defaults", "rank-stopped", None, None), outcome="skipped")
    seen = [skipped, detection("strict", "rank-stopped", 1.0, 30.0)]
    assert "did not end" not in sentence([comparison(estimate(1.03, 1.02, 1.04))], seen)


def test_a_sentence_for_each_treatment() -> None:
    other = dataclasses.replace(comparison(estimate(1.03, 1.02, 1.04)), treatment="x", says="x")
    assert len(sentences([comparison(estimate(1.03, 1.02, 1.04)), other])) == 2


RATIOS = st.floats(0.01, 50)


@given(st.tuples(RATIOS, RATIOS, RATIOS))
def test_a_price_is_named_only_where_the_interval_does_not_hold_1(values: tuple[float, float, float]) -> None:
    low, ratio, high = sorted(values)
    said = price(comparison(estimate(ratio, low, high)))
    is_open = low <= 1 <= high
    assert ("no difference" in said) == (is_open and (high - low) / 2 <= 0.2)
    assert ("too noisy" in said) == (is_open and (high - low) / 2 > 0.2)
    if low > 1:
        assert said.startswith(("costs", "takes"))
    if high < 1:
        assert said.startswith("saves")


def test_a_percentage_has_no_more_digits_than_make_sense() -> None:
    assert [percent(x) for x in (0.0006, 0.0312, 0.48, 0.0)] == ["0.06 %", "3.1 %", "48 %", "0 %"]
    assert [percent(x, signed=True) for x in (0.0312, -0.00001)] == ["+3.1 %", "0 %"]
