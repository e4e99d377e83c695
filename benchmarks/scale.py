"""16, 64, 128 and 256 ranks on one machine: start, death → every rank gone, the whole arm.

Budget for the end of N ranks: 100 ms + 10 ms × N / cores (tearing down an address space is CPU time).

    python benchmarks/scale.py [RANKS…]
"""

from __future__ import annotations

import sys

from _figures import Budget, cores, end, figure, heading, note
from _runs import ArmRun, named, run

from chaoskit.history import Started
from chaoskit.request import RunRequest

REPEATS = 3


def started_s(arm: ArmRun) -> float:
    """From the first rank's start to the last one's."""
    times = [e.t_s for e in arm.history.all(Started)]
    return max(times) - min(times)


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [16, 64, 128, 256]
    heading("ranks on one machine (rank-killed-mid-all-reduce, hardened)")
    scenarios = named("rank-killed-mid-all-reduce")
    kept = []
    for ranks in sizes:
        request = RunRequest(scenarios, arms=("hardened",), ranks=ranks, repeat=REPEATS, jobs=1, seed=1)
        with run(request) as (_, arms):
            budget = Budget(0.1 + 0.01 * ranks / cores(), at=99)
            ends_s = [a.after_first_death_s for a in arms]
            kept.append(figure(f"{ranks:>3} ranks: death → all gone", ends_s, budget))
            figure(f"{ranks:>3} ranks: all started", [started_s(a) for a in arms])
            figure(f"{ranks:>3} ranks: the whole arm", [a.whole_s for a in arms])
            for verdict in {f"{a.verdict.status}: {a.verdict.reason}" for a in arms}:
                note(f"{ranks:>3} ranks: {verdict}")
    end(kept)


if __name__ == "__main__":
    main()
