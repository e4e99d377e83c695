"""The tables that all reports of a cost show alike: prices, bandwidths, times of detection. Texts are raw.

Whatever a name holds, each report makes it safe in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from chaoskit.cost.limit import Standing, standing
from chaoskit.cost.sentence import FAULTS, TIMES_FROM, interval, percent, when
from chaoskit.cost.telling import is_scant, untold
from chaoskit.cost.values import Comparison, CostReport
from chaoskit.reports.wording import plural

EXTRAPOLATED: Final = (
    "Times with *about* are extrapolated to the full length of timeouts that were shortened for the run;"
    " the others are as measured. Each is from one run, with 4 ranks."
)
AGAIN: Final = "Measured again, in"
ANYWHERE: Final = "the folder where it was typed"
WATCHED: Final = "*Did not end*: hung when it had got twice its collective timeout and more."
_FEW, _MANY = 5, 5
_MARKS: Final[dict[Standing, str]] = {"within": "within", "above": "above", "unclear": "unclear"}


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: its texts, and in ``said`` why there are no figures."""

    treatment: str
    case: str
    plain: str = ""
    treated: str = ""
    cost: str = ""
    interval: str = ""
    bandwidth: str = ""  # bus bandwidth, plain → with
    rounds: str = ""
    limit: str = ""  # where it lies, with a limit
    said: str = ""
    is_difference: bool = False


def rows(report: CostReport, limit: float | None) -> Iterator[Row]:
    """Yield the rows, by treatment."""
    for comparison in report.comparisons:
        mark = "" if limit is None else _MARKS[standing(comparison, limit)]
        estimate = comparison.estimate
        if estimate is None:
            yield Row(comparison.treatment, comparison.case.name, limit=mark,
                      said=f"not timed: {comparison.problem}")  # fmt: skip
            continue
        if is_scant(estimate):
            yield Row(comparison.treatment, comparison.case.name, limit=mark, said=untold(estimate))
            continue
        as_times = estimate.ratio >= TIMES_FROM
        yield Row(
            comparison.treatment,
            comparison.case.name,
            step(estimate.plain_s),
            step(estimate.with_s),
            f"{estimate.ratio:.2f} ×" if as_times else percent(estimate.ratio - 1.0, signed=True),
            interval(estimate, times=as_times),
            _bandwidth(comparison),
            f"{estimate.rounds}/{estimate.launches}",
            mark,
            is_difference=estimate.is_difference,
        )


def step(seconds: float) -> str:
    """Return the time of a step or call: ``12.3 µs``, ``4.56 ms``, ``1.23 s``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size * 0.9995:
            value = seconds / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _bandwidth(comparison: Comparison) -> str:
    if comparison.bus_bytes_s is None:
        return ""
    plain, treated = (f"{value / 1e9:.3g}" for value in comparison.bus_bytes_s)
    return f"{plain} → {treated}"


@dataclass(frozen=True, slots=True)
class DetectionRow:
    """One scenario: how long the job went on under each treatment, in the order of the columns."""

    scenario: str
    fault: str
    times: tuple[str, ...]


def detected(report: CostReport) -> tuple[tuple[str, ...], tuple[DetectionRow, ...]]:
    """Return the treatments (what is compared with first) and a row for each scenario."""
    names = tuple(dict.fromkeys(d.treatment for d in report.detections))
    by_place = {(d.scenario, d.treatment): d for d in report.detections}
    scenarios = dict.fromkeys(d.scenario for d in report.detections)
    made = []
    for scenario in scenarios:
        found = [by_place.get((scenario, name)) for name in names]
        times = tuple("" if one is None else when(one) for one in found)
        made.append(DetectionRow(scenario, FAULTS.get(scenario, scenario), times))
    return names, tuple(made)


# ---------------------------------------------------------------- what stands above and below


def title(report: CostReport) -> str:
    return f"What it costs on {report.backend}, with {plural(report.ranks, 'rank')}"


def origin(report: CostReport) -> tuple[str, ...]:
    """Return what the figures were made with, and on what."""
    found = (f"torch {report.torch}" if report.torch else "", report.machine, f"seed {report.seed}")
    against = {c.against for c in report.comparisons}
    compared = f"against {', '.join(sorted(against))}" if against else ""
    return tuple(text for text in (compared, *found, f"{report.wall_s:.0f} s in all") if text)


def limited(report: CostReport, limit: float) -> str:
    """Return how many comparisons are on which side of the limit."""
    found = [standing(c, limit) for c in report.comparisons]
    counts = {name: found.count(name) for name in ("above", "within", "unclear")}
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"Limit {percent(limit)}: {said}" + (
        "; unclear means that the interval lies on both sides, or that there is none"
        if counts["unclear"]
        else ""
    )


def notes(report: CostReport) -> tuple[str, ...]:
    """Return what has to be known to read the figures."""
    found = list(report.notes)
    if report.interrupted:
        found.insert(0, "interrupted: what was measured until then is told")
    told = [e for c in report.comparisons if (e := c.estimate) is not None and not is_scant(e)]
    if few := [e for e in told if e.launches < _FEW]:
        found.append(
            f"{len(few)} of {len(told)} intervals rest on fewer than 5 starts of ranks: what differs from"
            " start to start is hardly in them; a longer --budget helps"
        )
    if len(told) >= _MANY:
        found.append(
            f"{len(told)} intervals at 95 %: one in twenty misses the true value by chance, none is marked"
        )
    if steps := [e.steps for e in told if e.steps]:
        found.append(
            f"what comes less often than once in {min(steps)} steps need not be in the figures: so many were"
            " timed of a side"
        )
    return tuple(found)


def proofs(report: CostReport) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield for each side what it was seen to have in effect, once for each treatment."""
    seen: set[str] = set()
    for comparison in report.comparisons:
        for name, found in zip((comparison.against, comparison.treatment), comparison.proofs, strict=True):
            if found and name not in seen:
                seen.add(name)
                yield name, found
