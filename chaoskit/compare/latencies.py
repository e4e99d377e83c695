"""Whether the latencies of one arm differ between two runs: a statement only where repeats allow one. Pure.

The test is Mann and Whitney's, exact for small samples, which assumes nothing of how latencies spread. The
factor is the median of all ratios between a latency of B and one of A (Hodges and Lehmann's, of logarithms),
and its interval is the one that belongs to the same test. Where many arms are compared, some differ by
chance: the level is shared among them as Benjamini and Hochberg do.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

FEWEST: Final = 5
"""Repeats that are needed on each side for a statement."""
LEVEL: Final = 0.05
_EXACT_MAX: Final = 2500
"""Pairs up to which the test is exact; with more, the normal approximation is as good."""
_RESOLUTION_S: Final = 1e-4
"""Below this a latency is not known: a ratio of such would say nothing."""

Said = Literal["slower", "faster", "no_difference", "too_few", "not_comparable"]


@dataclass(frozen=True, slots=True)
class Condition:
    """What the latencies of one arm were measured under, where it is another one in B."""

    name: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """B's latency as a multiple of A's, with its interval at 95 %, and how likely that is by chance."""

    factor: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """One arm in both runs. Medians are None where no latency is known."""

    scenario: str
    backend: str
    arm: str
    a_s: float | None
    b_s: float | None
    a_count: int
    b_count: int
    ratio: Ratio | None = None
    """None with fewer than FEWEST repeats on either side."""
    said: Said = "too_few"
    conditions: tuple[Condition, ...] = ()
    """What differs beside; with *not_comparable* these are why."""
    a_production_bound_s: float | None = None
    b_production_bound_s: float | None = None


def ratio(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """Return how B compares with A; None where there are too few of either."""
    if min(len(a), len(b)) < FEWEST:
        return None
    known_a, known_b = ([max(x, _RESOLUTION_S) for x in side] for side in (a, b))
    ratios = sorted(y / x for x in known_a for y in known_b)
    cut = _cut(len(a), len(b))
    return Ratio(statistics.median(ratios), ratios[cut], ratios[-1 - cut], _p(known_a, known_b))


def told(found: Sequence[Latencies]) -> tuple[Latencies, ...]:
    """Return the same with what can be said of each, given how many there are."""
    ps = sorted(one.ratio.p for one in found if one.ratio is not None)
    passing = [p for rank, p in enumerate(ps, 1) if p <= LEVEL * rank / len(ps)]
    limit = passing[-1] if passing else -1.0
    return tuple(_told(one, limit) for one in found)


def _told(one: Latencies, limit: float) -> Latencies:
    if one.ratio is None:
        return one
    said: Said = "no_difference"
    if one.ratio.p <= limit and not one.ratio.low <= 1.0 <= one.ratio.high:
        said = "slower" if one.ratio.factor > 1.0 else "faster"
    return dataclasses.replace(one, said=said)


def _p(a: Sequence[float], b: Sequence[float]) -> float:
    """How likely the two samples, or ones further apart, are if nothing differs."""
    below = sum((x < y) + 0.5 * (x == y) for x in a for y in b)
    far = min(below, len(a) * len(b) - below)
    if len(a) * len(b) > _EXACT_MAX:
        mean, spread = _moments(len(a), len(b))
        return min(1.0, math.erfc(max(0.0, mean - far - 0.5) / spread / math.sqrt(2)))
    counts = _counts(len(a), len(b))
    return min(1.0, 2 * sum(counts[: math.floor(far) + 1]) / sum(counts))


def _cut(m: int, n: int) -> int:
    """How many of the sorted ratios lie outside of the interval on each side."""
    if m * n > _EXACT_MAX:
        mean, spread = _moments(m, n)
        return max(0, math.floor(mean - statistics.NormalDist().inv_cdf(1 - LEVEL / 2) * spread))
    counts = _counts(m, n)
    total, seen = sum(counts), 0
    for cut, count in enumerate(counts):
        seen += count
        if 2 * seen > LEVEL * total:
            return cut
    return 0


def _moments(m: int, n: int) -> tuple[float, float]:
    return m * n / 2, math.sqrt(m * n * (m + n + 1) / 12)


@functools.cache
def _counts(m: int, n: int) -> tuple[int, ...]:
    """In how many orders of m and n values so many pairs are in order: the statistic U, from 0 to m·n."""
    # The coefficients of the Gaussian binomial: the product of (1 - x^(n+i)) / (1 - x^i) for i in 1…m.
    size = m * n + 1
    counts = [1] + [0] * (size - 1)
    for i in range(1, m + 1):
        for at in range(size - 1, n + i - 1, -1):
            counts[at] -= counts[at - n - i]
        for at in range(i, size):
            counts[at] += counts[at - i]
    return tuple(counts)
