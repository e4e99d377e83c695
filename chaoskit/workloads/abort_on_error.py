"""A loop of all_reduces that aborts its process groups when one fails, as careful scripts do."""

from __future__ import annotations

import os
import sys
import time

from chaoskit.progress import finished, report_result, step_done
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {"steps": 20, "step_s": 0.0, "numel": 1024}
OPS = {"default": ("all_reduce",)}


def main(settings: Settings) -> None:
    """Run ``steps`` steps of one all_reduce. Whoever meets an error calls :func:`abort`, and ends with 1."""
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    device = "cpu"
    local_rank = int(os.environ["LOCAL_RANK"])
    if settings["backend"] == "nccl":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))
    digest = 0.0
    try:
        for step in range(1, int(settings["steps"]) + 1):
            time.sleep(float(settings["step_s"]))
            tensor = torch.full((int(settings["numel"]),), float(share(rank, step)), device=device)
            dist.all_reduce(tensor)
            digest = fold(digest, tensor.double().mean().item())
            step_done(step)
    except RuntimeError as error:
        print(f"aborting: {error}", file=sys.stderr, flush=True)
        abort()
        raise
    report_result(digest)
    finished()
    dist.destroy_process_group()


def abort() -> None:
    """Abort the process groups where torch and the backend can (NCCL, torch 2.6 on), else destroy them."""
    import torch.distributed as dist

    abort_groups = getattr(dist.distributed_c10d, "_abort_process_group", None)
    if abort_groups is not None and dist.get_backend() == "nccl":
        abort_groups()
    else:
        dist.destroy_process_group()


def expected(settings: Settings, world_size: int) -> float | None:
    """Return the digest of all sums."""
    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        digest = fold(digest, total(range(world_size), step))
    return digest
