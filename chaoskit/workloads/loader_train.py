"""A DDP training loop over a DataLoader with worker processes, in epochs with a barrier at each end."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from typing import TYPE_CHECKING

from chaoskit.progress import finished, report_result
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

if TYPE_CHECKING:
    import torch

SETTINGS: dict[str, Setting] = {
    "steps": 20,
    "epoch_steps": 10,
    "step_s": 0.0,
    "workers": 2,
    "persistent": True,
    "batch": 4,
    "numel": 1024,
    "cache": False,
    "goes_on": False,
}
OPS = {"default": ("all_reduce", "broadcast", "all_gather", "barrier")}
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where a cache for several processes is kept
_FLOAT_BYTES = 4


class Samples:
    """A map-style dataset: ``batch`` samples of ``numel`` equal numbers for each step of an epoch.

    With ``cache`` each sample that has been made is kept in memory that all workers share, as loaders of
    images do; the file behind it has no name.
    """

    def __init__(self, rank: int, settings: Settings) -> None:
        self._rank = rank
        self._batch, self._numel = int(settings["batch"]), int(settings["numel"])
        self._count = int(settings["epoch_steps"]) * self._batch
        self._cache: mmap.mmap | None = None
        if settings["cache"]:
            with tempfile.TemporaryFile(dir=_SHARED_MEMORY) as file:
                file.truncate(self._count * self._numel * _FLOAT_BYTES)
                self._cache = mmap.mmap(file.fileno(), 0)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> torch.Tensor:
        import torch

        sample = torch.full((self._numel,), float(share(self._rank, index // self._batch + 1)))
        if self._cache is None:
            return sample
        start = index * self._numel * _FLOAT_BYTES
        kept = torch.frombuffer(self._cache, dtype=torch.float32, count=self._numel, offset=start)
        return kept.copy_(sample).clone()


def main(settings: Settings) -> None:
    """Train ``steps`` steps in epochs of ``epoch_steps``, each over all batches of a DataLoader.

    With ``goes_on`` an epoch in which the DataLoader fails is cut short, and training goes on with the next,
    as scripts do that must survive a bad file. That is right on one GPU and wrong on several.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader

    class Model(torch.nn.Module):
        def __init__(self, numel: int) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(numel))

        def forward(self, samples: torch.Tensor) -> torch.Tensor:
            return self.weight.sum() * samples.mean()

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    if settings["backend"] == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))

    workers = int(settings["workers"])
    persistent = bool(settings["persistent"]) and workers > 0
    loader: DataLoader[torch.Tensor] = DataLoader(
        Samples(rank, settings),  # type: ignore[arg-type]  # a Dataset is any object with these two methods
        batch_size=int(settings["batch"]),
        num_workers=workers,
        persistent_workers=persistent,
    )
    model = DistributedDataParallel(Model(int(settings["numel"])).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-10)
    digest, steps_left = 0.0, int(settings["steps"])
    while steps_left > 0:
        epoch_steps = min(steps_left, int(settings["epoch_steps"]))
        try:
            for step, samples in enumerate(loader, 1):
                time.sleep(float(settings["step_s"]))
                optimizer.zero_grad()
                model(samples.to(device)).backward()
                gradient = model.module.weight.grad
                digest = fold(digest, float(round(gradient.double().mean().item() * world_size)))
                optimizer.step()
                if step == epoch_steps:
                    break
        except (RuntimeError, OSError) as error:
            if not settings["goes_on"] or "DataLoader worker" not in str(error):
                raise
            print(f"rank {rank}: epoch cut short: {error}", flush=True)
        dist.barrier()
        steps_left -= epoch_steps
    report_result(digest)
    finished()
    # A reducer that is freed after the group can hang for good (its gloo thread wants the GIL that it holds).
    del model, optimizer, gradient, loader
    dist.destroy_process_group()


def expected(settings: Settings, world_size: int) -> float | None:
    """Return the digest of the sums of all gradients; each epoch has the same data."""
    digest = 0.0
    for step in range(int(settings["steps"])):
        digest = fold(digest, total(range(world_size), step % int(settings["epoch_steps"]) + 1))
    return digest
