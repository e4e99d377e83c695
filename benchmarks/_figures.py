"""How every benchmark prints: one line for the machine, one line a figure, ratios within one run."""

from __future__ import annotations

import math
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Budget:
    """What the figure may be, in seconds (or in the figure's own unit), at a percentile of it."""

    limit: float
    at: int = 99
    meaning: str = ""


def percentile(values: Sequence[float], at: int) -> float:
    """Return the smallest value that at least ``at`` percent of ``values`` do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * at / 100) - 1)]


def heading(title: str) -> None:
    """Print what is measured and on what; a figure means nothing without its machine."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = f"Python {platform.python_version()}, torch {metadata.version('torch')}"
    print(title)
    print(
        f"  machine: {cores()} cores, {memory_gib:.0f} GiB, {_processor()}, Linux {platform.release()}, "
        f"{versions}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def cores() -> int:
    return len(os.sched_getaffinity(0))


def figure(name: str, seconds: Sequence[float], budget: Budget | None = None, beside: str = "") -> bool:
    """Print the distribution of ``seconds`` and whether it is within ``budget``; return that."""
    if not seconds:
        print(f"  {name:<44} nothing was measured")
        return False
    text = "  ".join(f"p{at} {_duration(percentile(seconds, at))}" for at in (50, 99))
    text += f"  max {_duration(max(seconds))}  n={len(seconds)}"
    kept = True
    if budget:
        value = percentile(seconds, budget.at)
        kept = value <= budget.limit
        meaning = f" ({budget.meaning})" if budget.meaning else ""
        text += f"  budget p{budget.at} {_duration(budget.limit)}{meaning}: {'kept' if kept else 'EXCEEDED'}"
    print(f"  {name:<44} {text}{'  ' + beside if beside else ''}", flush=True)
    return kept


def ratio(name: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Print how many times longer ``theirs`` takes: the median over pairs measured together."""
    pairs = [t / o for o, t in zip(ours, theirs, strict=True)]
    spread = f"{min(pairs):.1f} to {max(pairs):.1f}"
    print(f"  {name:<44} {statistics.median(pairs):.1f} × ({spread}, {len(pairs)} pairs)", flush=True)


def note(text: str) -> None:
    print(f"  {text}", flush=True)


def end(kept: Sequence[bool]) -> None:
    """Exit 1 when a budget is exceeded, so that a run of all of them shows it."""
    sys.exit(0 if all(kept) else 1)


def _duration(seconds: float) -> str:
    if abs(seconds) < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.0f} ms" if abs(seconds) < 1 else f"{seconds:.2f} s"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
