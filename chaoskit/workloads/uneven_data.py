"""A DDP training loop over a data loader on each rank, whose lengths need not be the same."""

from __future__ import annotations

import contextlib
import os
import time

from chaoskit.progress import finished, report_result
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {"steps": 20, "step_s": 0.0, "numel": 1024, "join": False}
OPS = {"default": ("all_reduce", "broadcast", "all_gather", "barrier")}


def main(settings: Settings) -> None:
    """Train one epoch of ``steps`` batches, then meet at a barrier and compare the weights with rank 0's.

    With ``join`` the training runs under ``torch.distributed.algorithms.Join``: ranks out of data answer for
    the others' operations until all are done.
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.join import Join
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset

    class Model(torch.nn.Module):
        def __init__(self, numel: int) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(torch.zeros(numel))

        def forward(self, sample: torch.Tensor) -> torch.Tensor:
            return (self.weights * sample).sum()

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    local_rank = int(os.environ["LOCAL_RANK"])
    if settings["backend"] == "nccl":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))

    steps, joins = int(settings["steps"]), bool(settings["join"])
    samples = TensorDataset(torch.tensor([float(share(rank, step)) for step in range(1, steps + 1)]))
    model = DistributedDataParallel(Model(int(settings["numel"])).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-10)
    digest = right = 0.0
    with Join([model]) if joins else contextlib.nullcontext():
        for step, (batch,) in enumerate(DataLoader(samples, batch_size=1), 1):
            time.sleep(float(settings["step_s"]))
            optimizer.zero_grad()
            model(batch.to(device)).backward()
            optimizer.step()
            gradient = model.module.weights.grad
            assert gradient is not None
            digest = fold(digest, round(gradient.double().mean().item() * world_size))
            right = fold(right, total(range(world_size), step))
    dist.barrier()
    weights = model.module.weights.detach()
    reference = weights.clone()
    dist.broadcast(reference, src=0)
    difference = (weights - reference).abs().max().item()
    report_result(difference if joins else difference + abs(digest - right))
    finished()
    # A reducer that is freed after the group can hang for good (its gloo thread wants the GIL that it holds).
    del model, optimizer, gradient, weights
    dist.destroy_process_group()


def expected(settings: Settings, world_size: int) -> float | None:
    """Return 0: the weights are the same everywhere, and without ``join`` the gradients are right."""
    return 0.0
