"""Two subgroups that reduce on their own, and a barrier for all in each step."""

from __future__ import annotations

import os
import time

from chaoskit.progress import finished, report_result, step_done
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {"steps": 20, "step_s": 0.0, "numel": 1024}
OPS = {
    "default": ("all_reduce", "monitored_barrier", "barrier"),
    "left": ("all_reduce",),
    "right": ("all_reduce",),
}


def members(group: str, world_size: int) -> range:
    """Return the ranks of ``group``."""
    half = world_size // 2
    ranges = {"left": range(half), "right": range(half, world_size)}
    return ranges.get(group, range(world_size))


def main(settings: Settings) -> None:
    """Run ``steps`` steps: all_reduce in the own half ("left", "right"), ``monitored_barrier`` for all.

    The groups are made without a timeout, as most scripts make them. NCCL has no monitored barrier; there
    it is a plain one.
    """
    import torch
    import torch.distributed as dist

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    local_rank = int(os.environ["LOCAL_RANK"])
    if settings["backend"] == "nccl":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))
    left = dist.new_group(list(members("left", world_size)), group_desc="left")
    right = dist.new_group(list(members("right", world_size)), group_desc="right")
    mine = left if rank in members("left", world_size) else right

    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        time.sleep(float(settings["step_s"]))
        tensor = torch.full((int(settings["numel"]),), float(share(rank, step)), device=device)
        dist.all_reduce(tensor, group=mine)
        digest = fold(digest, tensor.double().mean().item())
        if device == "cpu":
            dist.monitored_barrier()
        else:
            dist.barrier()
        step_done(step)
    both = torch.tensor(digest, dtype=torch.float64, device=device)
    dist.all_reduce(both)
    report_result(both.item())
    finished()
    dist.destroy_process_group()


def expected(settings: Settings, world_size: int) -> float | None:
    """Return the sum over all ranks of the digest of their half."""
    result = 0.0
    for ranks in (members("left", world_size), members("right", world_size)):
        digest = 0.0
        for step in range(1, int(settings["steps"]) + 1):
            digest = fold(digest, total(ranks, step))
        result += digest * len(ranks)
    return result
