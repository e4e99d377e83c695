"""A DDP training loop with several gradient buckets, and a checkpoint by rank 0 between barriers."""

from __future__ import annotations

import os
import tempfile
import time

from chaoskit.progress import finished, phase, report_result
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {
    "steps": 20,
    "step_s": 0.0,
    "layers": 4,
    "numel": 4096,
    "checkpoint_every": 5,
    "checkpoint_allowance_s": 10.0,
}
OPS = {"default": ("all_reduce", "broadcast", "all_gather", "barrier")}


def main(settings: Settings) -> None:
    """Train ``layers`` layers of ``numel`` weights, each a bucket of its own, for ``steps`` steps.

    The gradient of a layer is the same number for each weight, whatever the weights are, so the averaged
    gradients are known. The file of a checkpoint has no name, so none can be left behind.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Model(torch.nn.Module):
        def __init__(self, layers: int, numel: int) -> None:
            super().__init__()
            self.layers = torch.nn.ParameterList(torch.zeros(numel) for _ in range(layers))

        def forward(self, sample: torch.Tensor) -> torch.Tensor:
            parts = [layer.sum() * (sample + number) for number, layer in enumerate(self.layers)]
            return torch.stack(parts).sum()

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    local_rank = int(os.environ["LOCAL_RANK"])
    if settings["backend"] == "nccl":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))

    layers, numel = int(settings["layers"]), int(settings["numel"])
    bucket_mb = numel * 4 / 2**20
    model = DistributedDataParallel(Model(layers, numel).to(device), bucket_cap_mb=bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-10)
    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        time.sleep(float(settings["step_s"]))
        sample = torch.tensor(float(share(rank, step)), device=device)
        optimizer.zero_grad()
        model(sample).backward()
        for parameter in model.parameters():
            gradient = parameter.grad
            assert gradient is not None
            digest = fold(digest, round_or_nan(gradient.double().mean().item() * world_size))
        optimizer.step()
        if step % int(settings["checkpoint_every"]) == 0:
            dist.barrier()
            if rank == 0:
                allowance_s = float(settings["checkpoint_allowance_s"])
                with phase("checkpoint", allowance_s), tempfile.TemporaryFile() as file:
                    torch.save({"model": model.module.state_dict(), "step": step}, file)
            dist.barrier()
    report_result(digest)
    finished()
    # A reducer that is freed after the group can hang for good (its gloo thread wants the GIL that it holds).
    del model, optimizer, gradient, parameter
    dist.destroy_process_group()


def round_or_nan(value: float) -> float:
    """Take away the rounding of the division by a world size that is no power of two."""
    return float(round(value)) if abs(value) < 2.0**53 else float("nan")


def expected(settings: Settings, world_size: int) -> float | None:
    """Return the digest of the sums of all layers' gradients."""
    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        for number in range(int(settings["layers"])):
            digest = fold(digest, total(range(world_size), step) + world_size * number)
    return digest
