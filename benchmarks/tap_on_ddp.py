"""What the tap adds to one training step under DistributedDataParallel, on gloo.

Two replicas of one model train in the same processes: one on the wrapped group, with the tap listening and
recording, the other on the inner group that torch made. Blocks of steps alternate in random order, the same
on all ranks, so both share process, context and noise; a pair is two neighbours. Settings: a bucket for each
parameter (the worst case: every collective is small, and there are many), torch's default, and one of 16 MiB.
Budget: 1 % of a step.

    python benchmarks/tap_on_ddp.py [RANKS]
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import _figures
import torch
import torch._dynamo  # else each rank imports it by itself, at the first optimizer
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from chaoskit import intercept
from chaoskit.rank.holder import Peers
from chaoskit.rank.recorder import Recorder
from chaoskit.rank.region import REGION_BYTES, Channels
from chaoskit.rank.tap import Tap

SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Setting:
    """One model and how DDP cuts its gradients into buckets."""

    name: str
    layers: int
    width: int
    batch: int
    bucket_mib: float
    rounds: int
    steps: int


SETTINGS = (
    Setting("40 buckets of up to 64 KiB", 20, 128, 64, 1e-6, 40, 5),
    Setting("default buckets, 5 MiB in all", 20, 256, 128, 25, 40, 5),
    Setting("1 bucket of 16 MiB", 4, 1024, 128, 25, 30, 2),
)


# Not freed before the process ends: a reducer's destructor joins gloo's thread under the GIL, which can hang.
_kept: list[Callable[[], None]] = []

Sample = tuple[float, float]
"""Seconds a step: of wall time, and of CPU time of the whole process."""


def step_of(setting: Setting, group: dist.ProcessGroup) -> Callable[[], None]:
    """Return one training step of a fresh replica on ``group``."""
    torch.manual_seed(1)
    layers = [nn.Linear(setting.width, setting.width) for _ in range(setting.layers)]
    model = DistributedDataParallel(
        nn.Sequential(*layers), process_group=group, bucket_cap_mb=setting.bucket_mib
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    batch = torch.randn(setting.batch, setting.width)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def pairs(setting: Setting, tap: Tap) -> list[tuple[Sample, Sample]]:
    """Measure blocks of steps with the tap and without, in the same order on all ranks."""
    outer = dist.group.WORLD
    assert isinstance(outer, intercept.Intercepted)
    plain, trained, done = step_of(setting, outer.inner), step_of(setting, outer), 0
    _kept.extend((plain, trained))

    def tapped() -> None:
        nonlocal done
        trained()
        done += 1
        tap.step_done(done)

    order, taken = random.Random(7), []
    for number in range(-3, setting.rounds):
        kinds = [0, 1]
        order.shuffle(kinds)
        samples: list[Sample] = [(0.0, 0.0), (0.0, 0.0)]
        for kind in kinds:
            step = (tapped, plain)[kind]
            step()  # the first of a block pays for the caches
            start, start_cpu = time.perf_counter(), time.process_time()
            for _ in range(setting.steps):
                step()
            samples[kind] = (
                (time.perf_counter() - start) / setting.steps,
                (time.process_time() - start_cpu) / setting.steps,
            )
        if number >= 0:  # the first ones warm up, and let DDP cut its buckets anew
            taken.append((samples[0], samples[1]))
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
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    taken = [pairs(setting, tap) for setting in SETTINGS]
    if rank == 0:
        (folder / "out").write_text(json.dumps(taken))
    dist.barrier()


def run(world: int) -> list[list[tuple[Sample, Sample]]]:
    """Fork the ranks and return what rank 0 measured, by setting."""
    with tempfile.TemporaryDirectory() as name:
        pids = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                try:
                    measure(rank, world, Path(name))
                finally:
                    os._exit(0)
            pids.append(pid)
        for pid in pids:
            os.waitpid(pid, 0)
        return [
            [(tuple(a), tuple(b)) for a, b in taken] for taken in json.loads((Path(name) / "out").read_text())
        ]


def report(setting: Setting, taken: list[tuple[Sample, Sample]]) -> bool:
    """Print one setting; return whether its budget is kept."""
    plain, plain_cpu = (statistics.median(without[i] for _, without in taken) for i in (0, 1))
    low, added, high = statistics.quantiles((with_[0] - without[0] for with_, without in taken), n=4)
    cpu = statistics.median(with_[1] - without[1] for with_, without in taken)
    kept = added / plain <= SHARE
    _figures.note(f"{setting.name}: {plain * 1e3:.2f} ms a step without, {plain_cpu * 1e3:.2f} ms of CPU")
    _figures.note(
        f"  added, median of {len(taken)} pairs: {added * 1e6:.0f} µs (half of them {low * 1e6:.0f} to "
        f"{high * 1e6:.0f}), {added / plain:.2%}; CPU {cpu * 1e6:.0f} µs, {cpu / plain_cpu:.2%}; "
        f"budget 1 % of the time: {'kept' if kept else 'EXCEEDED'}"
    )
    return kept


def main() -> None:
    world = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    _figures.heading(f"tap: added to one DDP step of {world} gloo ranks")
    _figures.end([report(s, taken) for s, taken in zip(SETTINGS, run(world), strict=True)])


if __name__ == "__main__":
    main()
