"""Whether an interval says anything at all: of too few starts, or too wide a one, nothing is told. Pure."""

from __future__ import annotations

from typing import Final

from chaoskit.cost.values import LAUNCHES_TOLD, Estimate

NOISY: Final = 0.2
"""Half an interval above this, with 1 in it, is no finding: neither a price nor the absence of one."""


def is_scant(estimate: Estimate) -> bool:
    """Return whether it rests on so few starts of ranks that not even its interval means anything."""
    return estimate.launches < LAUNCHES_TOLD


def is_noisy(estimate: Estimate) -> bool:
    """Return whether there are enough starts, and the interval is too wide all the same."""
    return not is_scant(estimate) and not estimate.is_difference and estimate.width > NOISY


def untold(estimate: Estimate) -> str:
    """Return why nothing is said of ``estimate``; '' where something is."""
    if is_scant(estimate):
        return f"too few starts to say anything ({estimate.launches} of at least {LAUNCHES_TOLD})"
    if is_noisy(estimate):
        return f"too noisy to say anything (± {estimate.width * 100:.0f} %)"
    return ""
