"""Group kill: from a rank's death until every rank is gone, and the same without a guard.

Budget: 4 ranks 100 ms at the 99th percentile, also on loaded cores.

    python benchmarks/group_kill.py [REPEATS]
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from _figures import Budget, cores, end, figure, heading
from _runs import named, run

from chaoskit.request import RunRequest

BUDGET = Budget(0.1, at=99)


@contextmanager
def burners(count: int) -> Iterator[None]:
    """Processes that keep ``count`` cores busy; they end with the block."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def deaths_s(arm: str, repeats: int) -> list[float]:
    request = RunRequest(named("rank-killed-mid-all-reduce"), arms=(arm,), repeat=repeats, jobs=1, seed=1)
    with run(request) as (_, arms):
        return [a.after_first_death_s for a in arms]


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    heading("death of one of 4 ranks → every rank gone")
    kept = [figure("hardened (group_kill)", deaths_s("hardened", repeats), BUDGET)]
    with burners(cores()):
        kept.append(
            figure(f"hardened, {cores()} CPU burners beside it", deaths_s("hardened", repeats), BUDGET)
        )
    figure("control (torch-defaults)", deaths_s("control", max(5, repeats // 5)))
    end(kept)


if __name__ == "__main__":
    main()
