"""What is asked of a matrix. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from chaoskit.matrix.values import Column
from chaoskit.model import Backend, GpuSharing, Profile, Scenario
from chaoskit.request import ArmId
from chaoskit.verdict import Verdict


@dataclass(frozen=True, slots=True)
class MatrixRequest:
    """Which scenarios, under which profile. None: as the scenario says, or chosen.

    ``columns`` keeps only these beside *none* and *profile*; empty: all. ``folder`` is that of a matrix that
    is gone on with. ``asked`` is how to ask for the same again, for the record; ``again`` how a single cell
    is run again, without its names.
    """

    scenarios: tuple[Scenario, ...]
    profile: Profile | None = None
    columns: tuple[Column, ...] = ()
    backend: Backend | None = None
    ranks: int | None = None
    jobs: int | None = None
    seed: int | None = None
    repeat: int = 1
    timeout_s: float | None = None
    time_scale: float | None = None
    require: tuple[str, ...] = ()
    gpu_sharing: GpuSharing | None = None
    runs_dir: Path = Path("runs")
    folder: Path | None = None
    asked: tuple[tuple[str, str | tuple[str, ...]], ...] = ()
    command: str = ""
    again: tuple[str, ...] = ("chaoskit", "matrix")


class MatrixObserver(Protocol):
    """Told of progress, from the thread that runs the matrix.

    ``damaged``: lines of kept cells that cannot be read; ``changed``: conditions that are others than when
    cells were kept. Either way those are run again.
    """

    def opened(self, folder: Path, seed: int, damaged: int, changed: tuple[str, ...]) -> None: ...
    def batch_started(self, what: str, to_run: int, kept: int) -> None: ...
    def cell_started(self, arm: ArmId, limit_s: float) -> None: ...
    def cell_ended(self, arm: ArmId, verdict: Verdict) -> None: ...
    def batch_ended(self, wall_s: float) -> None: ...


class Silent:
    """An observer that does not care."""

    def opened(self, folder: Path, seed: int, damaged: int, changed: tuple[str, ...]) -> None: ...
    def batch_started(self, what: str, to_run: int, kept: int) -> None: ...
    def cell_started(self, arm: ArmId, limit_s: float) -> None: ...
    def cell_ended(self, arm: ArmId, verdict: Verdict) -> None: ...
    def batch_ended(self, wall_s: float) -> None: ...
