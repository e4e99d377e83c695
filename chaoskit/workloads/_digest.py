"""A running number that any wrong, missing or misplaced contribution changes beyond recognition."""

from __future__ import annotations

import math

_MODULUS = 65521.0


def fold(digest: float, value: float) -> float:
    """Return the digest after ``value``, which a healthy run knows exactly: a whole number below 2**24."""
    return math.fmod(digest * 31.0 + value, _MODULUS) if math.isfinite(value) else math.nan


def share(rank: int, step: int) -> int:
    """Return what ``rank`` contributes in ``step``: different for each rank and each of 50 steps."""
    return (rank + 1) * (step % 50 + 1)


def total(ranks: range, step: int) -> int:
    """Return the sum of the shares of ``ranks`` in ``step``."""
    return sum(share(rank, step) for rank in ranks)
