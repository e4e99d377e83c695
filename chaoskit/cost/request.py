"""What is asked of a measurement, and who may watch. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chaoskit.cost.values import Case, Comparison, Estimate, Treatment
from chaoskit.model import Backend, Workload


@dataclass(frozen=True, slots=True)
class Model:
    """The DDP model that is timed.

    ``layers`` layers of ``bucket_bytes`` of weights each, every layer a bucket of its own. ``compute_ratio``:
    how many times as long a step computes as its all_reduces take alone.
    """

    layers: int = 8
    bucket_bytes: int = 1 << 20
    compute_ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class CostRequest:
    """Every treatment against one other, in every case.

    A comparison ends once half the width of its interval is below ``width`` (a share of the plain time), or
    after ``budget_s``. ``program`` is the user's script or module, where a case is of the kind ``program``.
    """

    treatments: tuple[Treatment, ...]
    against: Treatment
    cases: tuple[Case, ...]
    backend: Backend = "gloo"
    ranks: int = 2
    seed: int | None = None
    budget_s: float = 30.0
    width: float = 0.01
    program: Workload | None = None
    model: Model = field(default_factory=Model)
    runs_dir: Path = Path("runs")
    command: str = ""
    words: tuple[str, ...] = ()  # of the command, without files to write; none where it holds a secret
    folder: str = ""  # where it was typed; '' where that is not to be told


class CostObserver(Protocol):
    """Told of progress from the thread that measures; at most a few times a second."""

    def started(self, run_dir: Path, seed: int, comparisons: int) -> None: ...
    def comparison_started(self, treatment: str, case: Case) -> None: ...
    def timed(self, elapsed_s: float, so_far: Estimate | None) -> None: ...
    def comparison_ended(self, comparison: Comparison) -> None: ...
