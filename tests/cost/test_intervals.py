"""The interval: it holds what is true about as often as it says, and few starts say little."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.cost.intervals import Round, estimate

SECONDS = st.floats(1e-6, 1e3)


def launches(seed: int, ratio: float = 1.0, starts: int = 6) -> list[list[Round]]:
    """Rounds with noise that has long tails, and a chance part that all rounds of a start share."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(starts):
        shared = random.normal(0, 0.01)
        noise = random.standard_t(3, 15) * 0.03
        found.append([Round(1.0, float(ratio * np.exp(shared + n))) for n in noise])
    return found


def test_nothing_differs_about_as_often_as_95_percent_mean() -> None:
    false = sum(estimate(launches(seed), seed).is_difference for seed in range(200))
    assert false <= 20  # 10 are expected; more than 20 come in fewer than 1 of 500 such series


def test_what_differs_is_found_and_is_within_the_interval() -> None:
    found = [estimate(launches(seed, 1.1), seed) for seed in range(60)]
    assert all(one.is_difference for one in found)
    assert sum(one.low <= 1.1 <= one.high for one in found) >= 51


def test_few_starts_give_a_wider_interval_and_one_or_two_no_difference() -> None:
    few, many = (np.median([estimate(launches(s, starts=n), s).width for s in range(20)]) for n in (3, 12))
    assert few > 2 * many
    for starts in (1, 2):
        assert not estimate(launches(1, ratio=3.0, starts=starts)).is_difference


@pytest.mark.parametrize("period", [2, 10, 50])
def test_a_cost_that_comes_now_and_then_has_its_share(period: int) -> None:
    """Twice the time on average, in one step of ``period`` that takes all of it."""
    rounds = [Round(1.0, 1.0 + period * (number % period == 0)) for number in range(300)]
    parts = [rounds[at : at + 50] for at in range(0, 300, 50)]
    one = estimate(parts)
    assert one.ratio == pytest.approx(2.0)
    assert one.with_s == pytest.approx(one.ratio * one.plain_s)
    assert one.steps == 300


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.builds(Round, SECONDS, SECONDS), min_size=1, max_size=5), min_size=1, max_size=5))
def test_whatever_was_timed_the_ratio_is_within_its_interval(rounds: list[list[Round]]) -> None:
    one = estimate(rounds)
    slack = 1 + 1e-9
    assert 0 < one.low <= one.ratio * slack
    assert one.ratio <= one.high * slack
    assert one.rounds == sum(map(len, rounds))
    assert one.launches == len(rounds)
