"""A statement on latencies: right by enumeration, rare where nothing differs, made where something does."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.compare import latencies
from chaoskit.compare.latencies import FEWEST, Latencies

samples = st.lists(st.floats(0.001, 100), min_size=FEWEST, max_size=12)


def pair(a: list[float], b: list[float], arm: str = "hardened") -> Latencies:
    return Latencies("s", "gloo", arm, a[0], b[0], len(a), len(b), latencies.ratio(a, b))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (4, 4), (5, 3)])
def test_the_counts_are_those_of_all_orders(m: int, n: int) -> None:
    seen = [0] * (m * n + 1)
    for of_a in itertools.combinations(range(m + n), m):
        of_b = [at for at in range(m + n) if at not in of_a]
        seen[sum(x < y for x in of_a for y in of_b)] += 1
    assert list(latencies._counts(m, n)) == seen


def test_five_clean_repeats_are_enough_for_a_statement() -> None:
    a, b = [1.0, 1.01, 1.02, 1.03, 1.04], [1.4, 1.42, 1.43, 1.45, 1.46]
    (said,) = latencies.told([pair(a, b)])
    assert said.said == "slower"
    assert said.ratio is not None
    assert said.ratio.p == pytest.approx(2 / 252)
    assert said.ratio.low < said.ratio.factor < said.ratio.high
    assert said.ratio.factor == pytest.approx(1.4, abs=0.02)
    (said,) = latencies.told([pair(b, a)])
    assert said.said == "faster"


@pytest.mark.parametrize("count", range(FEWEST))
def test_with_fewer_there_is_none(count: int) -> None:
    assert latencies.ratio([1.0] * count, [9.0] * 20) is None
    assert latencies.ratio([1.0] * 20, [9.0] * count) is None
    (said,) = latencies.told([Latencies("s", "gloo", "control", 1.0, 9.0, count, 20)])
    assert said.said == "too_few"


@given(samples, samples)
def test_the_sides_may_be_swapped(a: list[float], b: list[float]) -> None:
    one, other = latencies.ratio(a, b), latencies.ratio(b, a)
    assert one is not None
    assert other is not None
    assert one.p == pytest.approx(other.p)
    assert one.low == pytest.approx(1 / other.high)
    assert one.low <= one.factor <= one.high
    assert 0 <= one.p <= 1


@given(samples)
def test_the_same_latencies_do_not_differ(a: list[float]) -> None:
    (said,) = latencies.told([pair(a, list(a))])
    assert said.said == "no_difference"


def test_latencies_below_the_clock_are_no_infinite_factor() -> None:
    found = latencies.ratio([0.0] * 5, [0.001] * 5)
    assert found is not None
    assert found.factor == pytest.approx(10)


def drawn(generator: random.Random, factor: float, count: int) -> list[float]:
    return [factor * generator.lognormvariate(0, 0.3) for _ in range(count)]


@pytest.mark.parametrize(("m", "n"), [(5, 5), (8, 20), (60, 60)])
def test_the_interval_holds_the_truth_as_often_as_it_says(m: int, n: int) -> None:
    generator, tries = random.Random(1), 400
    inside = 0
    for _ in range(tries):
        found = latencies.ratio(drawn(generator, 1, m), drawn(generator, 1.4, n))
        assert found is not None
        inside += found.low <= 1.4 <= found.high
    assert inside / tries > 0.92  # 0.95 less three standard errors


def test_of_many_arms_that_are_alike_hardly_any_is_said_to_differ() -> None:
    generator = random.Random(2)
    wrong = 0
    for _ in range(20):
        pairs = [pair(drawn(generator, 1, 8), drawn(generator, 1, 8), str(arm)) for arm in range(100)]
        wrong += sum(p.said != "no_difference" for p in latencies.told(pairs))
    assert wrong <= 6  # one by one, 100 of these 2000 would be


def test_one_that_differs_is_found_among_many() -> None:
    generator = random.Random(3)
    pairs = [pair(drawn(generator, 1, 20), drawn(generator, 1, 20), str(arm)) for arm in range(50)]
    slow = pair(drawn(generator, 1, 20), drawn(generator, 3, 20), "slow")
    assert [p.arm for p in latencies.told([*pairs, slow]) if p.said == "slower"] == ["slow"]
    assert dataclasses.replace(slow, said="slower") in latencies.told([*pairs, slow])
