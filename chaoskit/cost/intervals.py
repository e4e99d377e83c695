"""From timed pairs of blocks to a ratio with its interval. Pure.

Rounds of one start of ranks share what came about by chance at that start (where memory and threads lie), so
they are no independent samples of the difference between two settings: what is resampled is starts. Few
starts say little of how starts differ; the interval is widened for that as Student's distribution says. Of a
single start (a user's program that takes long) only its rounds can be resampled.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from chaoskit.cost.values import Estimate

LEVEL = 0.95
RESAMPLES = 2000
TRIM = 0.2
"""Share of the rounds that is left out on either side: something else ran on the machine then."""


@dataclass(frozen=True, slots=True)
class Round:
    """A pair of blocks, one after the other: seconds per call of each."""

    plain_s: float
    with_s: float


def estimate(launches: Sequence[Sequence[Round]], seed: int = 0) -> Estimate:
    """Return the ratio of all ``launches`` with at least one round each, and its interval."""
    logs = [np.log([r.with_s / r.plain_s for r in rounds]) for rounds in launches if rounds]
    centre = float(np.mean([_middle(rounds) for rounds in logs]))
    spread = _resampled(logs, np.random.default_rng(seed)) - centre
    low, high = np.quantile(spread, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) * _widening(len(logs))
    everything = [r for rounds in launches for r in rounds]
    return Estimate(
        math.exp(centre),
        math.exp(centre + low),
        math.exp(centre + high),
        statistics.median(r.plain_s for r in everything),
        statistics.median(r.with_s for r in everything),
        len(everything),
        len(logs),
    )


def _middle(rounds: NDArray[np.float64]) -> float:
    return float(stats.trim_mean(rounds, TRIM))


def _resampled(logs: list[NDArray[np.float64]], random: np.random.Generator) -> NDArray[np.float64]:
    """Return the ratio's logarithm in each of RESAMPLES drawings with replacement."""
    if len(logs) == 1:
        drawn = logs[0][random.integers(len(logs[0]), size=(RESAMPLES, len(logs[0])))]
        return np.asarray(stats.trim_mean(drawn, TRIM, axis=1), dtype=np.float64)
    middles = np.array([_middle(rounds) for rounds in logs])
    means = middles[random.integers(len(middles), size=(RESAMPLES, len(middles)))].mean(axis=1)
    return np.asarray(means, dtype=np.float64)


def _widening(launches: int) -> float:
    """Return by how much the interval of so few launches has to be wider than the drawings say."""
    if launches < 2:
        return 1.0
    student = stats.t.ppf((1 + LEVEL) / 2, launches - 1) / stats.norm.ppf((1 + LEVEL) / 2)
    return float(student * math.sqrt(launches / (launches - 1)))
