"""From timed pairs of blocks to a ratio with its interval. Pure.

What counts is throughput: all time of one side over all time of the other, so that a step that takes ten
times as long, once in a hundred steps, has its share. Nothing is trimmed: what recurs looks like a
disturbance.

Rounds of one start of ranks share what came about by chance at that start (where memory and threads lie), so
they are no independent samples of the difference between two settings: what is resampled is starts. Few
starts say little of how starts differ; the interval is widened for that as Student's distribution says. Of a
single start only its rounds can be resampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from chaoskit.cost.values import Estimate

LEVEL = 0.95
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Round:
    """A pair of blocks of ``calls`` calls, one after the other: seconds per call of each."""

    plain_s: float
    with_s: float
    calls: int = 1


Launch = NDArray[np.float64]
"""Seconds per call of its rounds: a row each, plain and with."""


def estimate(launches: Sequence[Sequence[Round]], seed: int = 0) -> Estimate:
    """Return the ratio of all ``launches`` with at least one round each, and its interval."""
    taken = [np.array([(r.plain_s, r.with_s) for r in rounds]) for rounds in launches if rounds]
    logs = np.array([_log_ratio(launch.mean(axis=0)) for launch in taken])
    random = np.random.default_rng(seed)
    drawn = _of_one(taken[0], random) if len(taken) == 1 else _of_all(logs, random)
    centre = float(logs.mean())
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(drawn - centre, tails) * _widening(len(taken))
    plain_s = float(np.mean([launch[:, 0].mean() for launch in taken]))
    return Estimate(
        math.exp(centre),
        math.exp(centre + low),
        math.exp(centre + high),
        plain_s,
        plain_s * math.exp(centre),
        sum(map(len, taken)),
        len(taken),
        sum(r.calls for rounds in launches for r in rounds),
    )


def _log_ratio(means: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.log(means[..., 1] / means[..., 0]), dtype=np.float64)


def _of_all(logs: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Return the ratio's logarithm in each of RESAMPLES drawings of starts, with replacement."""
    drawn = logs[random.integers(len(logs), size=(RESAMPLES, len(logs)))]
    return np.asarray(drawn.mean(axis=1), dtype=np.float64)


def _of_one(launch: Launch, random: np.random.Generator) -> NDArray[np.float64]:
    """The same of the rounds of the only start."""
    drawn = launch[random.integers(len(launch), size=(RESAMPLES, len(launch)))]
    return _log_ratio(drawn.mean(axis=1))


def _widening(launches: int) -> float:
    """Return by how much the interval of so few launches has to be wider than the drawings say."""
    if launches < 2:
        return 1.0
    student = stats.t.ppf((1 + LEVEL) / 2, launches - 1) / stats.norm.ppf((1 + LEVEL) / 2)
    return float(student * math.sqrt(launches / (launches - 1)))
