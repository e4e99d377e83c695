"""A training loop that skips a step in which something failed: ``except …: continue``."""

from __future__ import annotations

import os
import sys
import time

from chaoskit.progress import finished, report_result, step_done
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {"steps": 20, "step_s": 0.0, "numel": 1024, "together": False}
OPS = {"default": ("all_reduce",)}


def main(settings: Settings) -> None:
    """Run ``steps`` steps of one all_reduce. A rank that skips one is a step ahead from then on.

    With ``together`` the ranks tell each other of a sample that could not be loaded, and all skip the step.
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

    def agree(sample: float | None) -> float:
        failed = torch.tensor(float(sample is None), device=device)
        dist.all_reduce(failed, op=dist.ReduceOp.MAX)
        if sample is None or failed.item():
            raise RuntimeError("a rank has no sample for this step")
        return sample

    digest = right = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        time.sleep(float(settings["step_s"]))
        try:
            sample = agree(load_or_none(rank, step)) if settings["together"] else load(rank, step)
            tensor = torch.full((int(settings["numel"]),), sample, device=device)
            dist.all_reduce(tensor)
            digest = fold(digest, tensor.double().mean().item())
            right = fold(right, total(range(world_size), step))
        except RuntimeError as error:
            print(f"step {step} skipped: {error}", file=sys.stderr, flush=True)
            continue
        step_done(step)
    report_result(digest - right)
    finished()
    dist.destroy_process_group()


def load(rank: int, step: int) -> float:
    """Return the sample of ``rank`` for ``step``."""
    return float(share(rank, step))


def load_or_none(rank: int, step: int) -> float | None:
    """Return the sample, None where it cannot be loaded."""
    try:
        return load(rank, step)
    except RuntimeError:
        return None


def expected(settings: Settings, world_size: int) -> float | None:
    """Return 0: the sums of the steps that were made are right, however many these are."""
    return 0.0
