"""What it costs a rank to know, at one moment, what it holds of what all ranks have to hold alike.

Of models of 100 parameters: the checksums themselves, and what keeping the number of each parameter adds
(one block appended to a file in a temporary folder, while the file is far from full). CPU time of the thread,
so that others on the machine matter less; the median counts. Budget of what is added: 5 % of the checksums
or 50 µs, whichever is more.

    python benchmarks/replica_cost.py
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable

import _figures
import torch

from chaoskit.intercept.checksum import combined, numbers
from chaoskit.intercept.replicated import Replica
from chaoskit.rank.parameters import ParameterFile

SHAPES = ((64,), (64, 25), (512, 512))
COUNT = 100
SHARE = 0.05
LEAST_S = 50e-6
MOMENTS = 1000


def timed(run: Callable[[int], object], times: int) -> list[float]:
    """Return the CPU seconds of each of so many calls, after some that are not counted."""
    taken = []
    for number in range(-3, times):
        start = time.thread_time()
        run(number)
        if number >= 0:
            taken.append(time.thread_time() - start)
    return taken


def measure(shape: tuple[int, ...], folder: str) -> bool:
    """Print the figures of one model; return whether the budget is kept."""
    tensors = [torch.randn(shape) for _ in range(COUNT)]
    names = tuple(f"layers.{index}.weight" for index in range(COUNT))
    numel = sum(tensor.numel() for tensor in tensors)

    def summed(step: int) -> Replica:
        each = tuple(numbers(tensors))
        return Replica((0, 1), 0, "model", step, combined(each), numel, names, each)

    replica, file = summed(1), ParameterFile(folder)
    summing = timed(summed, 20 if numel > 1e6 else 200)
    keeping = timed(lambda _: file.add(replica, 1, final=False), MOMENTS)
    of, added = statistics.median(summing), statistics.median(keeping)
    kept = added <= max(LEAST_S, SHARE * of)
    size = "×".join(map(str, shape))
    _figures.note(
        f"{COUNT} parameters of {size}, {numel * 4 / 2**20:.1f} MiB: checksums {of * 1e6:.0f} µs, "
        f"keeping them adds {added * 1e6:.1f} µs, {added / of:.1%}; "
        f"budget {SHARE:.0%} or {LEAST_S * 1e6:.0f} µs: {'kept' if kept else 'EXCEEDED'}"
    )
    return kept


def main() -> None:
    torch.set_num_threads(1)
    _figures.heading("replicas: the cost of one moment")
    with tempfile.TemporaryDirectory() as folder:
        _figures.end([measure(shape, f"{folder}/{number}") for number, shape in enumerate(SHAPES)])


if __name__ == "__main__":
    main()
