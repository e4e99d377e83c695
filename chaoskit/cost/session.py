"""One `chaoskit cost` from end to end: the measurements that it takes, then detection, put into one report.

A measurement times one model (chaoskit.cost.request); a sweep over models is several of them. Interrupted,
it reports what there is. Prints nothing.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from chaoskit.cost.hiding import Hiding
from chaoskit.cost.request import CostObserver, CostRequest
from chaoskit.cost.telling import is_noisy
from chaoskit.cost.values import Case, Comparison, CostReport, Detection, Estimate, Treatment
from chaoskit.request import Observer

Measure = Callable[[CostRequest, CostObserver], CostReport]


class Detect(Protocol):
    """Runs the scenarios (see chaoskit.cost.detection.detect); also says whether that was interrupted."""

    def __call__(self, asked: Asked, seed: int, observer: Observer) -> tuple[tuple[Detection, ...], bool]: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done. ``refused`` are rows that cannot be timed here, with the reason; ``detected`` are
    the treatments whose detection is timed, what they are compared with first; none: it is not timed."""

    requests: tuple[CostRequest, ...]
    refused: tuple[Comparison, ...] = ()
    detected: tuple[Treatment, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def comparisons(self) -> int:
        """How many will be timed."""
        return sum(len(one.cases) * len(one.treatments) for one in self.requests)

    @property
    def longest_s(self) -> float:
        """How long timing them takes at most; starts of ranks come on top."""
        return sum(one.budget_s * len(one.cases) * len(one.treatments) for one in self.requests)


def refused(treatment: Treatment, against: Treatment, case: Case, why: str) -> Comparison:
    """Return the row for what cannot be timed here."""
    return Comparison(treatment.name, treatment.says, against.name, case, "ranks", None, why)


class Known:
    """Keeps what has been measured, for the report of a run that does not come to its end; passes all on,
    without secrets."""

    def __init__(self, shown: CostObserver, hiding: Hiding) -> None:
        self._shown = shown
        self._hiding = hiding
        self.run_dir = ""
        self.seed = 0
        self.comparisons: list[Comparison] = []

    def started(self, run_dir: object, seed: int, comparisons: int) -> None:
        self.run_dir = self.run_dir or str(run_dir)
        self.seed = seed
        self._shown.started(run_dir, seed, comparisons)  # type: ignore[arg-type]

    def comparison_started(self, treatment: str, case: Case) -> None:
        self._shown.comparison_started(self._hiding.text(treatment), case)

    def timed(self, elapsed_s: float, so_far: Estimate | None) -> None:
        self._shown.timed(elapsed_s, so_far)

    def comparison_ended(self, comparison: Comparison) -> None:
        self.comparisons.append(comparison)
        self._shown.comparison_ended(self._hiding.comparison(comparison))


def run(
    asked: Asked, measure: Measure, detect: Detect, shown: CostObserver, watching: Observer
) -> CostReport:
    """Measure, then detect. Raises as the measuring does where nothing at all can be reported."""
    began_s = time.monotonic()
    hiding = Hiding(asked.requests, os.environ)
    known = Known(shown, hiding)
    first: CostReport | None = None
    interrupted = False
    try:
        for request in asked.requests:
            found = measure(request, known)
            first = first or found
            if interrupted := found.interrupted:
                break
    except KeyboardInterrupt:
        if not known.run_dir:
            raise
        interrupted = True
    detections: tuple[Detection, ...] = ()
    if asked.detected and not interrupted:
        try:
            detections, interrupted = detect(asked, known.seed, watching)
        except KeyboardInterrupt:
            interrupted = True
    report = first or _empty(asked, known)
    told = dataclasses.replace(
        report,
        comparisons=_in_order(asked, (*known.comparisons, *asked.refused)),
        detections=detections,
        wall_s=time.monotonic() - began_s,
        interrupted=interrupted,
        notes=(*report.notes, *asked.notes, *_load(known.comparisons)),
        rerun=again(asked.requests[0], known.seed),
        folder=asked.requests[0].folder,
    )
    return hiding.report(told)


def again(request: CostRequest, seed: int) -> str:
    """Return the command that measures the same with the same seed; '' where none is known."""
    if not request.words:
        return ""
    program, command, *rest = request.words
    drawn = ["--seed", str(seed)] if request.seed is None else []
    return shlex.join([program, command, *drawn, *rest])


def _load(comparisons: list[Comparison]) -> tuple[str, ...]:
    """What else ran on the machine, where something was too noisy."""
    noisy = [c for c in comparisons if c.estimate is not None and is_noisy(c.estimate)]
    if not noisy:
        return ()
    cores = len(os.sched_getaffinity(0))
    return (f"{len(noisy)} of {len(comparisons)} too noisy: at the end the load was"
            f" {os.getloadavg()[0]:.1f} on {cores} cores",)  # fmt: skip


def _empty(asked: Asked, known: Known) -> CostReport:
    """The report of a run that was cut off before it told its own."""
    from chaoskit import rundir

    request = asked.requests[0]
    return CostReport(
        request.backend, request.ranks, rundir.version("torch"), "", known.seed, (), run_dir=known.run_dir
    )


def _in_order(asked: Asked, comparisons: tuple[Comparison, ...]) -> tuple[Comparison, ...]:
    """By treatment, then by case as they were asked for, whichever were timed and whichever refused."""
    names = [t.name for request in asked.requests for t in request.treatments]
    names += [one.treatment for one in asked.refused]
    cases = [case for request in asked.requests for case in request.cases]
    cases += [one.case for one in asked.refused]
    place = {case: (_family(case, cases), case.nbytes, cases.index(case)) for case in set(cases)}
    return tuple(sorted(comparisons, key=lambda one: (names.index(one.treatment), place[one.case])))


def _family(case: Case, cases: list[Case]) -> int:
    """The place of the first case of the same kind and operation."""
    return next(n for n, other in enumerate(cases) if (other.kind, other.op) == (case.kind, case.op))
