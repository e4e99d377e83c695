"""An all_reduce, a broadcast and a barrier in each step."""

from __future__ import annotations

import os
import time

from chaoskit.progress import finished, report_result, step_done
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {
    "steps": 20, "step_s": 0.0, "numel": 1024, "rendezvous": "env", "lingers_s": 0.0
}  # fmt: skip
OPS = {"default": ("all_reduce", "broadcast", "barrier")}


def main(settings: Settings) -> None:
    """Run ``steps`` steps on tensors of ``numel`` elements, with a pause of ``step_s`` before each.

    ``rendezvous: file`` has the ranks meet in a file of the arm's folder, without a store at MASTER_ADDR. A
    rank that cannot form the process group lingers for ``lingers_s`` before it ends, as scripts do that
    upload their logs first.
    """
    import torch
    import torch.distributed as dist

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    local_rank = int(os.environ["LOCAL_RANK"])
    if settings["backend"] == "nccl":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        device = "cuda"
    try:
        _form(settings, rank, world_size)
    except RuntimeError:
        time.sleep(float(settings["lingers_s"]))
        raise
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


def _form(settings: Settings, rank: int, world_size: int) -> None:
    import torch.distributed as dist

    backend = str(settings["backend"])
    if settings["rendezvous"] == "file":
        method = f"file://{os.environ['CHAOSKIT_SCRATCH']}/rendezvous"
        dist.init_process_group(backend, method, rank=rank, world_size=world_size)
    else:
        dist.init_process_group(backend)


def expected(settings: Settings, world_size: int) -> float | None:
    """Return the digest of all sums and broadcasts."""
    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        digest = fold(digest, total(range(world_size), step))
        digest = fold(digest, share(step % world_size, step))
    return digest
