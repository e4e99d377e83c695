"""An all_reduce, a broadcast and a barrier in each step."""

from __future__ import annotations

import os
import time

from chaoskit.progress import finished, report_result, step_done
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {"steps": 20, "step_s": 0.0, "numel": 1024}
OPS = {"default": ("all_reduce", "broadcast", "barrier")}


def main(settings: Settings) -> None:
    """Run ``steps`` steps on tensors of ``numel`` elements, with a pause of ``step_s`` before each."""
    import torch
    import torch.distributed as dist

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    local_rank = int(os.environ["LOCAL_RANK"])
    if settings["backend"] == "nccl":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))
    numel = int(settings["numel"])
    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        time.sleep(float(settings["step_s"]))
        tensor = torch.full((numel,), float(share(rank, step)), device=device)
        dist.all_reduce(tensor)
        root = step % world_size
        word = torch.full((numel,), float(share(rank, step)), device=device)
        dist.broadcast(word, src=root)
        dist.barrier()
        digest = fold(digest, tensor.double().mean().item())
        digest = fold(digest, word.double().mean().item())
        step_done(step)
    report_result(digest)
    finished()
    dist.destroy_process_group()


def expected(settings: Settings, world_size: int) -> float | None:
    """Return the digest of all sums and broadcasts."""
    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        digest = fold(digest, total(range(world_size), step))
        digest = fold(digest, share(step % world_size, step))
    return digest
