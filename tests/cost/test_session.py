"""One run from end to end, with a measuring and a detecting that start nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from chaoskit.cost import cases, session
from chaoskit.cost.request import CostObserver, CostRequest, Model
from chaoskit.cost.session import Asked
from chaoskit.cost.treatments import treatment
from chaoskit.cost.values import Case, Comparison, CostReport, Detection, Estimate
from chaoskit.request import Observer, Silent

PLAIN, STRICT, INFO = (treatment(name) for name in ("torch-defaults", "strict", "debug-info"))
SEEN = Detection("strict", "rank-stopped", 3.0, 120.0, 10.0, 0.02, "failed")


class Quiet:
    def started(self, run_dir: Path, seed: int, comparisons: int) -> None: ...
    def comparison_started(self, treatment: str, case: Case) -> None: ...
    def timed(self, elapsed_s: float, so_far: Estimate | None) -> None: ...
    def comparison_ended(self, comparison: Comparison) -> None: ...


class FakeMeasure:
    """Measures at once; is interrupted before comparison number ``stop``, with or without a report."""

    def __init__(self, stop: int | None = None, raises: bool = False) -> None:
        self.stop, self.raises, self.done = stop, raises, 0

    def __call__(self, request: CostRequest, observer: CostObserver) -> CostReport:
        observer.started(Path("runs/7"), 7, 9)
        found = []
        for case in request.cases:
            for one in request.treatments:
                if self.done == self.stop:
                    if self.raises:
                        raise KeyboardInterrupt
                    return self._report(request, found, interrupted=True)
                self.done += 1
                made = Comparison(one.name, one.says, request.against.name, case, "process",
                                  Estimate(1.01, 1.0, 1.02, 1.0, 1.01, 9, 9))  # fmt: skip
                found.append(made)
                observer.comparison_ended(made)
        return self._report(request, found)

    def _report(self, request: CostRequest, found: list[Comparison], interrupted: bool = False) -> CostReport:
        return CostReport(request.backend, request.ranks, "2.13", "m", 7, tuple(found), run_dir="runs/7",
                          interrupted=interrupted)  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "seed", "told"),
    [
        ("chaoskit cost strict", None, "chaoskit cost --seed 7 strict"),
        (
            "chaoskit cost strict 'my train.py' -- --x 1",
            None,
            "chaoskit cost --seed 7 strict 'my train.py' -- --x 1",
        ),
        ("chaoskit cost --seed 3 strict", 3, "chaoskit cost --seed 3 strict"),
        ("", None, ""),
    ],
)
def test_it_tells_how_it_is_measured_again(typed: str, seed: int | None, told: str) -> None:
    request = CostRequest((STRICT,), PLAIN, (), seed=seed, words=tuple(shlex.split(typed)), folder="/here")
    assert session.again(request, 7) == told


def asked(**more: object) -> Asked:
    small, large = cases.collectives(["all_reduce"], [8, 1024])
    (refused,) = cases.collectives(["all_reduce"], [64])
    first = CostRequest((STRICT, INFO), PLAIN, (small, large))
    model = Model(bucket_bytes=4096)
    second = CostRequest((STRICT, INFO), PLAIN, (cases.ddp(model),), model=model)
    rows = tuple(session.refused(t, PLAIN, refused, "too large") for t in (STRICT, INFO))
    return Asked((first, second), rows, **more)  # type: ignore[arg-type]


def detect(one: Asked, seed: int, observer: Observer) -> tuple[tuple[Detection, ...], bool]:
    return (SEEN,), False


def test_several_models_and_refused_rows_make_one_report_in_order() -> None:
    report = session.run(asked(notes=("n",)), FakeMeasure(), detect, Quiet(), Silent())
    names = [(c.treatment, c.case.name) for c in report.comparisons]
    own = ["all_reduce 8 B", "all_reduce 64 B", "all_reduce 1 KiB", "ddp 8 × 4 KiB"]
    assert names == [(t, case) for t in ("strict", "debug-info") for case in own]
    assert report.comparisons[1].problem == "too large"
    assert report.notes == ("n",)
    assert report.detections == ()  # nothing was to be detected with
    assert not report.interrupted


def test_detection_follows_where_it_was_asked_for() -> None:
    report = session.run(asked(detected=(PLAIN, STRICT)), FakeMeasure(), detect, Quiet(), Silent())
    assert report.detections == (SEEN,)


@pytest.mark.parametrize("raises", [False, True])
def test_what_was_measured_before_an_interrupt_is_reported(raises: bool) -> None:
    measure = FakeMeasure(stop=3, raises=raises)
    report = session.run(asked(detected=(PLAIN, STRICT)), measure, detect, Quiet(), Silent())
    assert report.interrupted
    assert sum(c.estimate is not None for c in report.comparisons) == 3
    assert report.detections == ()
    assert report.run_dir == "runs/7"


def test_an_interrupt_of_detection_keeps_the_prices() -> None:
    def interrupted(one: Asked, seed: int, observer: Observer) -> tuple[tuple[Detection, ...], bool]:
        raise KeyboardInterrupt

    report = session.run(asked(detected=(PLAIN, STRICT)), FakeMeasure(), interrupted, Quiet(), Silent())
    assert report.interrupted
    assert sum(c.estimate is not None for c in report.comparisons) == 6


def test_before_anything_was_begun_an_interrupt_is_one() -> None:
    def never(request: CostRequest, observer: CostObserver) -> CostReport:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.run(asked(), never, detect, Quiet(), Silent())
