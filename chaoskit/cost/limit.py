"""Whether a price stays below a limit, as far as the measurement can tell. Pure.

An interval that lies on both sides of the limit is neither: *unclear*, and never within.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from chaoskit.cost.telling import untold
from chaoskit.cost.values import Comparison, CostReport
from chaoskit.errors import ExitCode

Standing = Literal["within", "above", "unclear"]


def standing(comparison: Comparison, limit: float) -> Standing:
    """Return where the whole interval of a comparison lies; *unclear* where there is none,
    or one of which nothing can be said."""
    estimate = comparison.estimate
    if estimate is None or untold(estimate):
        return "unclear"
    if estimate.low - 1.0 > limit:
        return "above"
    return "within" if estimate.high - 1.0 <= limit else "unclear"


def exit_code(report: CostReport, limit: float | None) -> ExitCode:
    """Return what the command tells its caller: 1 above the limit; 2 where that is unclear, or something
    could not be timed, or nothing can be said of it; 130 for what was interrupted. Without a limit no price
    is too high."""
    if report.interrupted:
        return ExitCode.INTERRUPTED
    found = set(_standings(report.comparisons, limit))
    if "above" in found:
        return ExitCode.NOT_HELD
    return ExitCode.INCONCLUSIVE if "unclear" in found or not found else ExitCode.OK


def _standings(comparisons: Iterable[Comparison], limit: float | None) -> Iterable[Standing]:
    for comparison in comparisons:
        if limit is not None:
            yield standing(comparison, limit)
        else:
            estimate = comparison.estimate
            yield "unclear" if estimate is None or untold(estimate) else "within"
