"""What the tap adds to a collective: interception, record of the entry, record of the end.

In one process group, calls alternate in random order between the wrapped group, with the tap listening and
recording, and the inner group that torch made: both share process, tensor, gloo context and noise.
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


def pairs(operation: Callable[[dist.ProcessGroup], object], rounds: int) -> list[tuple[float, float]]:
    """Return seconds with and without the tap, of ``rounds`` calls each, in the same order on all ranks."""
    outer = dist.group.WORLD
    assert isinstance(outer, intercept.Intercepted)
    order = random.Random(7)
    taken = []
    for number in range(-rounds // 10, rounds):
        pair: list[tuple[int, dist.ProcessGroup]] = [(0, outer), (1, outer.inner)]
        order.shuffle(pair)
        times = [0.0, 0.0]
        for which, group in pair:
            start = time.perf_counter()
            operation(group)
            times[which] = time.perf_counter() - start
        if number >= 0:  # the first ones warm up
            taken.append((times[0], times[1]))
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
    tensor = torch.ones(1 if world == 1 else 2**18)
    taken = pairs(lambda group: dist.all_reduce(tensor.zero_(), group=group), 20_000 if world == 1 else 1500)
    if rank == 0:
        (folder / f"out{world}").write_text(json.dumps(taken))
    dist.destroy_process_group()


def run(world: int, folder: Path) -> list[tuple[float, float]]:
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
    return [(a, b) for a, b in json.loads((folder / f"out{world}").read_text())]


def main() -> None:
    _figures.heading("tap: added to one all_reduce")
    with tempfile.TemporaryDirectory() as name:
        alone, two = run(1, Path(name)), run(2, Path(name))
    added = statistics.median(a - b for a, b in alone)
    share = statistics.median(a - b for a, b in two) / statistics.median(b for _, b in two)
    with_, without = (statistics.median(v) for v in zip(*alone, strict=True))
    kept = added <= BUDGET_S
    _figures.note(f"4 B, 1 rank: {with_ * 1e6:.1f} µs with, {without * 1e6:.1f} µs without")
    _figures.note(
        f"added, median of pairs: {added * 1e6:.1f} µs (budget 5 µs: {'kept' if kept else 'EXCEEDED'})"
    )
    with_, without = (statistics.median(v) for v in zip(*two, strict=True))
    kept_share = share <= SHARE
    _figures.note(f"1 MiB, 2 ranks: {with_ * 1e6:.0f} µs with, {without * 1e6:.0f} µs without")
    _figures.note(f"share, median of pairs: {share:.2%} (budget 1 %: {'kept' if kept_share else 'EXCEEDED'})")
    _figures.end([kept, kept_share])


if __name__ == "__main__":
    main()
