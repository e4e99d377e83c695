"""A ring of sends and receives in each step, then an all_reduce in each of two groups of all ranks."""

from __future__ import annotations

import os
import time
from typing import Any

from chaoskit.progress import finished, report_result, step_done
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {"steps": 20, "step_s": 0.0, "numel": 1024, "order": "together"}
OPS = {"default": ("send", "recv", "all_reduce", "barrier"), "metrics": ("all_reduce",)}


def main(settings: Settings) -> None:
    """Run ``steps`` steps: tensors go once round the ring, so that each rank has added up all of them; then
    all_reduce the sum, a barrier, and all_reduce it once more in the group "metrics".

    ``order`` is that of the sends and receives of one hop: ``together`` (isend and irecv, as they should be),
    ``in-turn`` (rank 0 sends first, all others receive first) or ``receive-first`` (on all ranks: they wait
    for each other).
    """
    import torch
    import torch.distributed as dist

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    if settings["backend"] == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))
    metrics = dist.new_group(group_desc="metrics")
    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        time.sleep(float(settings["step_s"]))
        own = torch.full((int(settings["numel"]),), float(share(rank, step)), device=device)
        added = own.clone()
        for _ in range(world_size - 1):
            own = _pass_on(own, rank, world_size, str(settings["order"]))
            added += own
        dist.all_reduce(added)
        dist.barrier()
        digest = fold(digest, added.double().mean().item())
        dist.all_reduce(added, group=metrics)
        digest = fold(digest, added.double().mean().item())
        step_done(step)
    report_result(digest)
    finished()
    dist.destroy_process_group()


def _pass_on(own: Any, rank: int, world_size: int, order: str) -> Any:
    """Send ``own`` to the next rank; return what the one before sent."""
    import torch
    import torch.distributed as dist

    following, before = (rank + 1) % world_size, (rank - 1) % world_size
    got = torch.empty_like(own)
    if order == "together":
        requests = [dist.isend(own, following), dist.irecv(got, before)]
        for request in requests:
            if request is not None:
                request.wait()
    elif order == "in-turn" and rank == 0:
        dist.send(own, following)
        dist.recv(got, before)
    else:
        dist.recv(got, before)
        dist.send(own, following)
    return got


def expected(settings: Settings, world_size: int) -> float | None:
    """Return the digest of the sums that each rank has after each all_reduce."""
    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        once = total(range(world_size), step) * world_size
        digest = fold(digest, once)
        digest = fold(digest, once * world_size)
    return digest
