"""A DDP training loop that decides, each rank for itself, to skip a step or to stop."""

from __future__ import annotations

import math
import os
import time

from chaoskit.progress import finished, report_result
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {
    "steps": 20,
    "step_s": 0.0,
    "numel": 1024,
    "decide": "clock",
    "limit_s": 600.0,
    "together": False,
}
OPS = {"default": ("all_reduce", "broadcast", "all_gather", "barrier")}


def main(settings: Settings) -> None:
    """Train ``steps`` steps. What each rank looks at (``decide``):

    - ``clock``: it stops ``limit_s`` after its start;
    - ``metric``: every 5 steps it computes a metric of its own, and stops when that is no better than before;
    - ``nan``: it skips the step when its loss is no number.

    With ``together`` the ranks agree on each decision: one that wants to decides for all.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Model(torch.nn.Module):
        def __init__(self, numel: int) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(torch.zeros(numel))

        def forward(self, sample: torch.Tensor) -> torch.Tensor:
            return self.weights.sum() * sample

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    local_rank = int(os.environ["LOCAL_RANK"])
    if settings["backend"] == "nccl":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))

    def decided(wanted: bool) -> bool:
        if not settings["together"]:
            return wanted
        votes = torch.tensor(float(wanted), device=device)
        dist.all_reduce(votes, op=dist.ReduceOp.MAX)
        return bool(votes.item())

    model = DistributedDataParallel(Model(int(settings["numel"])).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-10)
    decide, limit_s = settings["decide"], float(settings["limit_s"])
    started_s, best = time.monotonic(), math.inf
    digest = right = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        time.sleep(float(settings["step_s"]))
        loss = model(torch.tensor(float(share(rank, step)), device=device))
        if decide == "nan" and decided(not math.isfinite(loss.item())):
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gradient = model.module.weights.grad
        assert gradient is not None
        digest = fold(digest, round(gradient.double().mean().item() * world_size))
        right = fold(right, total(range(world_size), step))
        if decide == "clock" and decided(time.monotonic() - started_s > limit_s):
            break
        if decide == "metric" and step % 5 == 0:
            with torch.no_grad():
                metric = model.module(torch.tensor(rank + 1.0, device=device)).item()
            if decided(not metric < best):
                break
            best = metric
    dist.barrier()
    report_result(digest - right)
    finished()
    # A reducer that is freed after the group can hang for good (its gloo thread wants the GIL that it holds).
    del model, optimizer, gradient, loss
    dist.destroy_process_group()


def expected(settings: Settings, world_size: int) -> float | None:
    """Return 0: the gradients of the steps that were made are right, however many these are."""
    return 0.0
