"""What the tap adds to a collective: interception, record of the entry, record of the end.

In one process group, blocks of calls alternate in random order between the wrapped group, with the tap
listening and recording, and the inner group that torch made: both share process, tensor, gloo context and
noise. Blocks, because single calls would run each other's code out of the caches; a pair is two neighbours.
Budget: 5 µs a collective, and 1 % of a 1 MiB all_reduce of two ranks.

    python benchmarks/tap_cost.py
"""

from __future__ import annotations

import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import _figures
import torch
import torch.distributed as dist

from chaoskit import intercept
from chaoskit.rank.holder import Peers
from chaoskit.rank.recorder import Recorder
from chaoskit.rank.region import REGION_BYTES, Channels
from chaoskit.rank.tap import Tap

BUDGET_S = 5e-6
SHARE = 0.01


Pair = tuple[float, float, float, float]
"""Seconds a call, with the tap and without: of wall time, then of CPU time of the issuing thread."""


def pairs(operation: Callable[[dist.ProcessGroup], object], rounds: int, calls: int) -> list[Pair]:
    """Measure ``rounds`` pairs of blocks of ``calls`` each, in the same order on all ranks."""
    outer = dist.group.WORLD
    assert isinstance(outer, intercept.Intercepted)
    order = random.Random(7)
    taken = []
    for number in range(-rounds // 10, rounds):
        pair: list[tuple[int, dist.ProcessGroup]] = [(0, outer), (1, outer.inner)]
        order.shuffle(pair)
        wall, cpu = [0.0, 0.0], [0.0, 0.0]
        for which, group in pair:
            operation(group)  # the first of a block pays for the caches
            start, start_cpu = time.perf_counter(), time.thread_time()
            for _ in range(calls):
                operation(group)
            wall[which] = (time.perf_counter() - start) / calls
            cpu[which] = (time.thread_time() - start_cpu) / calls
        if number >= 0:  # the first ones warm up
            taken.append((wall[0], wall[1], cpu[0], cpu[1]))
    return taken


def measure(rank: int, world: int, folder: Path) -> None:
    """Be one rank; rank 0 writes what it measured."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    memfd = os.memfd_create("region")
    os.truncate(memfd, REGION_BYTES)
    channels = Channels(memfd, 0)
    tap = Tap(
        Recorder.open(channels), [], Peers(channels),
        slot=rank, rank=rank, world_size=world, seed=0, gate=lambda: None,
    )  # fmt: skip
    intercept.add(tap)
    intercept.install()
    dist.init_process_group("gloo", init_method=f"file://{folder}/store{world}", rank=rank, world_size=world)
    tensor = torch.zeros(1 if world == 1 else 2**18)  # zeros: their sum is as cheap the thousandth time
    rounds, calls = (400, 100) if world == 1 else (150, 20)
    taken = pairs(lambda group: dist.all_reduce(tensor, group=group), rounds, calls)
    if rank == 0:
        (folder / f"out{world}").write_text(json.dumps(taken))
    dist.destroy_process_group()


def run(world: int, folder: Path) -> list[Pair]:
    """Fork the ranks and return the pairs that rank 0 measured."""
    pids = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            try:
                measure(rank, world, folder)
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    return [(a, b, c, d) for a, b, c, d in json.loads((folder / f"out{world}").read_text())]


def report(what: str, taken: list[Pair]) -> tuple[float, float]:
    """Print one setting; return the median that the tap adds in wall time, and that of the plain call."""
    with_, without, *_ = (statistics.median(column) for column in zip(*taken, strict=True))
    low, added, high = statistics.quantiles((p[0] - p[1] for p in taken), n=4)
    cpu = statistics.median(p[2] - p[3] for p in taken)
    _figures.note(f"{what}: {with_ * 1e6:.1f} µs with, {without * 1e6:.1f} µs without")
    _figures.note(
        f"  added, median of {len(taken)} pairs: {added * 1e6:.1f} µs (half of them {low * 1e6:.1f} to "
        f"{high * 1e6:.1f}); CPU time of the thread {cpu * 1e6:.1f} µs"
    )
    return added, without


def main() -> None:
    _figures.heading("tap: added to one all_reduce")
    with tempfile.TemporaryDirectory() as name:
        alone, two = run(1, Path(name)), run(2, Path(name))
    added, _ = report("4 B, 1 rank", alone)
    kept = added <= BUDGET_S
    _figures.note(f"  budget 5 µs: {'kept' if kept else 'EXCEEDED'}")
    added, plain = report("1 MiB, 2 ranks", two)
    kept_share = added / plain <= SHARE
    _figures.note(f"  share {added / plain:.2%}, budget 1 %: {'kept' if kept_share else 'EXCEEDED'}")
    _figures.end([kept, kept_share])


if __name__ == "__main__":
    main()
