"""Whether an interval says anything at all."""

from __future__ import annotations

import pytest

from chaoskit.cost.telling import untold
from chaoskit.cost.values import Estimate


@pytest.mark.parametrize(
    ("low", "high", "launches", "said"),
    [
        (0.99, 1.01, 1, "too few starts to say anything (1 of at least 3)"),
        (1.70, 2.12, 2, "too few starts to say anything (2 of at least 3)"),
        (0.70, 1.30, 9, "too noisy to say anything (± 30 %)"),
        (0.81, 1.19, 9, ""),
        (1.10, 2.10, 9, ""),  # wide, and a difference all the same
    ],
)
def test_nothing_is_told_of_too_few_starts_or_too_much_noise(
    low: float, high: float, launches: int, said: str
) -> None:
    assert untold(Estimate((low + high) / 2, low, high, 0.01, 0.01, 50, launches)) == said
