"""Wall time of a matrix against the sum of its cells: how much running them side by side saves.

python benchmarks/matrix_wall.py [SCENARIO…]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from _figures import cores, heading, note
from _runs import named

from chaoskit.matrix.making import make
from chaoskit.matrix.request import MatrixRequest
from chaoskit.request import RunRequest

SCENARIOS = ("rank-stopped", "dtypes-differ", "oom-kept-alive", "rank-leaves-early", "rank-slow")
"""A hang, a silent corruption, a caught error, an early end, a healthy twin."""


def main() -> None:
    heading("a matrix: wall time against the sum of its cells")
    runs = Path(tempfile.mkdtemp(prefix="chaoskit-benchmark-"))
    try:
        scenarios = named(*(sys.argv[1:] or SCENARIOS))
        found = make(MatrixRequest(RunRequest(scenarios, seed=1, runs_dir=runs, command="benchmark")))
    finally:
        shutil.rmtree(runs, ignore_errors=True)
    effort = found.effort
    shown = sum(len(row.cells) for row in found.rows)
    note(f"{len(found.rows)} scenarios × {len(found.columns)} columns, {effort.run} runs for {shown} cells")
    note(f"one after the other {effort.sum_s:.1f} s, side by side on {cores()} cores {effort.wall_s:.1f} s")
    note(f"{effort.sum_s / effort.wall_s:.1f} × faster")
    note(f"smallest set: {' + '.join(found.smallest.confirmed or ('none confirmed',))}")


if __name__ == "__main__":
    main()
