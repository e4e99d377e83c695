"""What interception adds to one all_reduce, with a trivial listener, paired within one run.

Blocks of the same collective alternate, in random order, between the wrapper and the inner group that it
wraps, so both share process, tensor, gloo context and noise; single calls would run each other's code out of
the caches. Budget: 5 us a collective, 1 % of a 1 MiB all_reduce.

    python benchmarks/intercept_cost.py
"""

import json
import multiprocessing as mp
import os
import random
import runpy
import statistics
import sys
import tempfile
import time
import timeit
from typing import Any

RANK = "chaoskit-benchmark-rank"


class Trivial:
    """A listener that does nothing."""

    def around(self, call: Any, proceed: Any) -> Any:
        return proceed()

    def done(self, call: Any, error: BaseException | None) -> None:
        return None


Sample = tuple[float, float]  # microseconds of wall time, of CPU time of this thread


def pairs_us(
    operation: Any, outer: Any, inner: Any, rounds: int, calls: int
) -> tuple[list[Sample], list[Sample]]:
    """What `operation` takes on the wrapper and on the inner group: `rounds` pairs of blocks of `calls`."""
    order = random.Random(7)  # the same order on every rank
    taken: dict[Any, list[Sample]] = {outer: [], inner: []}
    for round_ in range(-rounds // 10, rounds):
        pair = [outer, inner]
        order.shuffle(pair)
        for group in pair:
            operation(group)  # the first of a block pays for the caches
            cpu, start = time.thread_time_ns(), time.perf_counter_ns()
            for _ in range(calls):
                operation(group)
            elapsed, used = time.perf_counter_ns() - start, time.thread_time_ns() - cpu
            if round_ >= 0:  # the first tenth warms up
                taken[group].append((elapsed / 1000 / calls, used / 1000 / calls))
    return taken[outer], taken[inner]


def compare(operation: Any, outer: Any, inner: Any, rounds: int, calls: int) -> dict[str, float]:
    """Medians over all pairs, and the quartiles of what is added. Trust the CPU time on a busy machine."""
    with_, without = pairs_us(operation, outer, inner, rounds, calls)
    wall, wall_0 = (statistics.median(s[0] for s in samples) for samples in (with_, without))
    added, cpu = (
        statistics.quantiles((a[i] - b[i] for a, b in zip(with_, without, strict=True)), n=4) for i in (0, 1)
    )
    return {
        "with_us": round(wall, 1),
        "without_us": round(wall_0, 1),
        "share": round(added[1] / wall_0, 4),
        "added_us": round(added[1], 2),
        "added_us_from": round(added[0], 2),
        "added_us_to": round(added[2], 2),
        "added_cpu_us": round(cpu[1], 2),
    }


def alone(group: Any) -> dict[str, float]:
    """Microseconds of CPU that interception takes by itself, a stub in the place of the inner group."""
    import torch
    import torch.distributed as dist

    from chaoskit import intercept

    issue, n, tensor = dict(group._issue), 1_000, torch.ones(1)
    group.inner.allreduce([tensor]).wait()
    finished = group.inner.allreduce([tensor])
    finished.wait()

    def stub(*args: Any, **kwargs: Any) -> Any:
        return finished

    def best(function: Any) -> float:
        # Short rounds, so that some are not preempted.
        return min(timeit.repeat(function, timer=time.thread_time, number=n, repeat=50)) / n * 1e6

    group._issue = dict.fromkeys(issue, stub)
    synchronous, asynchronous = dist.AllreduceOptions(), dist.AllreduceOptions()
    synchronous.asyncOp, asynchronous.asyncOp = False, True
    tensors = [tensor]
    base = best(lambda: stub(tensors, synchronous).wait())
    call = intercept.Call("all_reduce", "allreduce", "g", (0,), 1, (tensors, synchronous), {}, group, stub)

    def fingerprint() -> None:
        call.args = (tensors, synchronous)
        call.fingerprint()

    figures = {
        "synchronous": best(lambda: group.allreduce(tensors, synchronous).wait()) - base,
        "asynchronous": best(lambda: group.allreduce(tensors, asynchronous).wait()) - base,
        "user_site": best(intercept.user_site),
        "fingerprint": best(fingerprint),
    }
    group._issue = issue
    return {what: round(us, 2) for what, us in figures.items()}


def run_rank(rank: int, world: int, store: str, out: str) -> None:
    """Measure on one rank, and write the figures of rank 0."""
    import torch
    import torch.distributed as dist

    from chaoskit import intercept

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    intercept.add(Trivial())
    intercept.install()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    outer = dist.group.WORLD
    assert isinstance(outer, intercept.Intercepted)
    small, large = torch.zeros(1), torch.zeros(2**18)
    figures: dict[str, Any] = {}
    if world == 1:
        figures["4 B, 1 rank"] = compare(
            lambda g: dist.all_reduce(small, group=g), outer, outer.inner, 400, 100
        )
        figures["Python alone"] = alone(outer)
    else:
        figures["4 B, 2 ranks"] = compare(
            lambda g: dist.all_reduce(small, group=g), outer, outer.inner, 150, 40
        )
        figures["1 MiB, 2 ranks"] = compare(
            lambda g: dist.all_reduce(large, group=g), outer, outer.inner, 100, 15
        )
    if rank == 0:
        with open(out, "w") as file:
            json.dump(figures, file)
    dist.destroy_process_group()


def main() -> None:
    context = mp.get_context("spawn")
    for world in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.json")
            ranks = []
            for rank in range(world):
                job = {"JOB": (rank, world, os.path.join(folder, "store"), out)}
                ranks.append(context.Process(target=runpy.run_path, args=(__file__, job, RANK), daemon=True))
            try:
                for process in ranks:
                    process.start()
                for process in ranks:
                    process.join(300)
            finally:
                for process in ranks:
                    process.kill()
                    process.join()
            with open(out) as file:
                for what, figures in json.load(file).items():
                    sys.stdout.write(f"{what}: {figures}\n")


if __name__ == RANK:
    run_rank(*JOB)  # type: ignore[name-defined]  # noqa: F821  # given by main() through runpy
elif __name__ == "__main__":
    main()
