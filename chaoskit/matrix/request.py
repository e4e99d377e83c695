"""What is asked of a matrix. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from chaoskit.matrix.values import Column
from chaoskit.request import ArmId, RunRequest
from chaoskit.verdict import Verdict


@dataclass(frozen=True, slots=True)
class MatrixRequest:
    """Which scenarios, under which profile, and how their cells are run: as ``run`` says, but for its arms.

    ``columns`` keeps only these beside *none* and *profile*; empty: all. ``folder`` is that of a matrix that
    is gone on with. ``asked`` is how to ask for the same again, for the record; ``again`` how a single cell
    is run again, without its names, and ``behind`` what then stands behind them: the arguments of a program.
    """

    run: RunRequest
    columns: tuple[Column, ...] = ()
    folder: Path | None = None
    asked: tuple[tuple[str, str | tuple[str, ...]], ...] = ()
    again: tuple[str, ...] = ("chaoskit", "matrix")
    behind: tuple[str, ...] = ()


class MatrixObserver(Protocol):
    """Told of progress, from the thread that runs the matrix.

    ``damaged``: lines of kept cells that cannot be read; ``changed``: conditions that are others than when
    cells were kept. Either way those are run again. ``broken``: why the program, run once without any fault,
    cannot be used, or an empty text.
    """

    def opened(self, folder: Path, seed: int, damaged: int, changed: tuple[str, ...]) -> None: ...
    def program_started(self, name: str) -> None: ...
    def program_ended(self, name: str, broken: str) -> None: ...
    def batch_started(self, what: str, to_run: int, kept: int) -> None: ...
    def cell_started(self, arm: ArmId, limit_s: float) -> None: ...
    def cell_ended(self, arm: ArmId, verdict: Verdict) -> None: ...
    def batch_ended(self, wall_s: float) -> None: ...


class Silent:
    """An observer that does not care."""

    def opened(self, folder: Path, seed: int, damaged: int, changed: tuple[str, ...]) -> None: ...
    def program_started(self, name: str) -> None: ...
    def program_ended(self, name: str, broken: str) -> None: ...
    def batch_started(self, what: str, to_run: int, kept: int) -> None: ...
    def cell_started(self, arm: ArmId, limit_s: float) -> None: ...
    def cell_ended(self, arm: ArmId, verdict: Verdict) -> None: ...
    def batch_ended(self, wall_s: float) -> None: ...
