"""An evaluation between two barriers in each step, the second of them in a ``finally``."""

from __future__ import annotations

import os
import time

from chaoskit.progress import finished, report_result, step_done
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {"steps": 20, "step_s": 0.0, "numel": 1024, "together": False}
OPS = {"default": ("all_reduce", "barrier")}


def main(settings: Settings) -> None:
    """Run ``steps`` steps. A rank whose evaluation fails goes straight to the barrier in the ``finally``.

    With ``together`` the ranks tell each other of an error, and all leave the step out.
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

    def value_of(step: int) -> float | None:
        if not settings["together"]:
            return evaluate(rank, step)
        value = None
        try:
            value = evaluate(rank, step)
        except ValueError as error:
            print(f"step {step} left out: {error}", flush=True)
        failed = torch.tensor(float(value is None), device=device)
        dist.all_reduce(failed, op=dist.ReduceOp.MAX)
        return None if failed.item() else value

    digest = right = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        time.sleep(float(settings["step_s"]))
        dist.barrier()
        try:
            value = value_of(step)
            if value is not None:
                tensor = torch.full((int(settings["numel"]),), value, device=device)
                dist.all_reduce(tensor)
                digest = fold(digest, tensor.double().mean().item())
                right = fold(right, total(range(world_size), step))
        finally:
            dist.barrier()
        step_done(step)
    report_result(digest - right)
    finished()
    dist.destroy_process_group()


def evaluate(rank: int, step: int) -> float:
    """Return what this rank adds in ``step``."""
    return float(share(rank, step))


def expected(settings: Settings, world_size: int) -> float | None:
    """Return 0: the sums of the steps that were made are right, however many these are."""
    return 0.0
