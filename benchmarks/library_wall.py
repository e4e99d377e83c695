"""Wall time of the whole library. Budget: 1.3 × its longest arm + CPU time / cores.

CPU time is that of chaoskit and all its children, as the kernel counts it.

    python benchmarks/library_wall.py
"""

from __future__ import annotations

import resource
import time

from _figures import Budget, cores, end, figure, heading, note
from _runs import named, run

from chaoskit.request import RunRequest

FACTOR = 1.3


def cpu_s() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in usages)


def main() -> None:
    heading("the whole library")
    scenarios = named("all")
    before, start = cpu_s(), time.perf_counter()
    with run(RunRequest(scenarios, seed=1)) as (_, arms):
        wall = time.perf_counter() - start
        cpu = cpu_s() - before
        longest = max(arms, key=lambda a: a.whole_s)
        together = sum(a.whole_s for a in arms)
    note(f"{len(scenarios)} scenarios, {len(arms)} arms, one after the other {together:.1f} s")
    note(f"longest arm {longest.whole_s:.1f} s: {longest.verdict.scenario}, {longest.verdict.arm}")
    note(f"CPU {cpu:.1f} s on {cores()} cores")
    note(f"side by side: {together / wall:.1f} × faster than one after the other")
    limit = FACTOR * longest.whole_s + cpu / cores()
    end([figure("wall", [wall], Budget(limit, meaning="1.3 × longest arm + CPU / cores"))])


if __name__ == "__main__":
    main()
