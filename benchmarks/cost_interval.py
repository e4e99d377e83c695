"""How narrow the interval of a cost gets, and how often it tells a difference where there is none.

Three figures of `chaoskit cost`'s own measuring: half the width of the 95 % interval for a 1 MiB gloo
all_reduce of two ranks after 30 s (goal: 2 %), with both sides in the same ranks and in sets of ranks of
their own; A/A comparisons, short ones, that rightly show no difference (goal: 90 of 100); and the same figure
by a plain loop of its own, in turns with it.

    python benchmarks/cost_interval.py [--runs 100] [--seconds 3] [--width-seconds 30]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import _figures

from chaoskit.cost.measuring import measure
from chaoskit.cost.request import CostRequest
from chaoskit.cost.values import Case, Comparison, Estimate, Treatment
from chaoskit.model import Profile
from chaoskit.scenario import load_profile

GOAL_WIDTH = 0.02
GOAL_SHARE = 0.9
REFERENCE_PAIRS = 7
CASE = Case("collective", "all_reduce 1 MiB", "all_reduce", 1 << 20)
DEFAULTS = load_profile("torch-defaults")
PLAIN = Treatment("torch-defaults", "torch's defaults", DEFAULTS)
SAME_RANKS = Treatment("nothing", "nothing", DEFAULTS)
# Nobody reads these variables, so the sides differ in nothing. What begins with NCCL_ would be read when a
# group forms, so both sets of ranks come from one fork server; the other at start-up, so there are two.
OWN_RANKS = Treatment("nothing", "nothing", Profile("nothing", env=(("NCCL_READ_BY_NOBODY", "1"),)))
OWN_SERVERS = Treatment("nothing", "nothing", Profile("nothing", env=(("CHAOSKIT_READ_BY_NOBODY", "1"),)))
SERVER_RUNS = 10

# As a user would write it to have a figure to compare with.
REFERENCE = """
import os, sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
tensor = torch.zeros(2**18)
for _ in range(50):
    dist.all_reduce(tensor)
taken = []
for _ in range(30):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(30):
        dist.all_reduce(tensor)
    taken.append((time.perf_counter() - start) / 30)
if sys.argv[2] == "0":
    print(sorted(taken)[15])
"""


class Quiet:
    """Shows how many are done, and nothing else."""

    def __init__(self, total: int) -> None:
        self._left = total

    def started(self, run_dir: Path, seed: int, comparisons: int) -> None: ...
    def comparison_started(self, treatment: str, case: Case) -> None: ...
    def timed(self, elapsed_s: float, so_far: Estimate | None) -> None: ...

    def comparison_ended(self, comparison: Comparison) -> None:
        self._left -= 1
        if self._left % 10 == 0 and sys.stderr.isatty():
            print(f"  {self._left} to go", file=sys.stderr)


def compared(treatment: Treatment, count: int, budget_s: float, folder: str, seed: int) -> list[Estimate]:
    """Return ``count`` A/A comparisons, each with starts of ranks of its own."""
    request = CostRequest(
        (treatment,) * count, PLAIN, (CASE,), budget_s=budget_s, width=0.0, seed=seed, runs_dir=Path(folder)
    )
    found = measure(request, Quiet(count)).comparisons
    return [one.estimate for one in found if one.estimate is not None]


def width(name: str, treatment: Treatment, seconds: float, folder: str) -> bool:
    """Print how narrow the interval gets in ``seconds``."""
    (found,) = compared(treatment, 1, seconds, folder, seed=1)
    kept = found.width <= GOAL_WIDTH
    _figures.note(
        f"{name}: ± {found.width:.2%} after {seconds:.0f} s ({found.launches} starts, {found.rounds} rounds, "
        f"{found.plain_s * 1e3:.2f} ms a call); goal 2 %: {'kept' if kept else 'EXCEEDED'}"
    )
    return kept


def no_difference(name: str, treatment: Treatment, count: int, seconds: float, folder: str) -> bool:
    """Print how many of ``count`` A/A comparisons show no difference."""
    found = compared(treatment, count, seconds, folder, seed=2)
    right = sum(not one.is_difference for one in found)
    kept = right >= GOAL_SHARE * count
    typical = statistics.median(one.width for one in found)
    _figures.note(
        f"{name}: {right} of {count} comparisons of {seconds:.0f} s show no difference (median width "
        f"± {typical:.2%}); goal 90 of 100: {'kept' if kept else 'EXCEEDED'}"
    )
    return kept


def reference_s() -> float:
    """Return the median seconds of an all_reduce in the plain loop."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", REFERENCE, f"{folder}/store", str(rank)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        said = [rank.communicate()[0] for rank in ranks]
    return float(said[0])


def reference(folder: str) -> None:
    """Print the plain loop's figure beside that of `chaoskit cost`, measured in turns."""
    pairs = []
    for turn in range(REFERENCE_PAIRS):
        (ours,) = compared(SAME_RANKS, 1, 3.0, folder, seed=10 + turn)
        pairs.append((ours.plain_s, reference_s()))
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    medians = [statistics.median(column) * 1e3 for column in zip(*pairs, strict=True)]
    _figures.note(
        f"all_reduce of 1 MiB: {medians[0]:.2f} ms by chaoskit cost, {medians[1]:.2f} ms by a plain loop; "
        f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}, {len(ratios)} pairs)"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--width-seconds", type=float, default=30.0)
    asked = parser.parse_args()
    _figures.heading("cost: intervals of comparisons in which nothing differs")
    with tempfile.TemporaryDirectory() as folder:
        kept = [
            width("same ranks", SAME_RANKS, asked.width_seconds, folder),
            width("ranks of their own", OWN_RANKS, asked.width_seconds, folder),
        ]
        reference(folder)
        half = max(1, asked.runs // 2)
        kept.append(no_difference("same ranks", SAME_RANKS, half, asked.seconds, folder))
        kept.append(no_difference("ranks of their own", OWN_RANKS, half, asked.seconds, folder))
        few = max(1, min(SERVER_RUNS, asked.runs // 10))
        kept.append(no_difference("fork servers of their own", OWN_SERVERS, few, asked.seconds, folder))
    _figures.end(kept)


if __name__ == "__main__":
    main()
