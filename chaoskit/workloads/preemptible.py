"""A training loop over a data loader that saves a checkpoint and stops when SIGTERM has come."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from types import FrameType

from chaoskit.progress import finished, phase, report_result, step_done
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {
    "steps": 20,
    "step_s": 0.0,
    "numel": 1024,
    "look_every": 1,
    "together": False,
    "workers": 0,
    "shield_workers": False,
    "allowance_s": 10.0,
}
OPS = {"default": ("all_reduce", "barrier")}

_told: list[int] = []


def main(settings: Settings) -> None:
    """Train at most ``steps`` steps, looking every ``look_every`` steps whether SIGTERM has come.

    Each rank looks for itself; with ``together`` one that was told tells all. ``workers`` load the data;
    SIGTERM to the process group ends them as well, unless ``shield_workers`` has them ignore it. The file of
    the checkpoint has no name, so none can be left behind.
    """
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset

    _told.clear()
    signal.signal(signal.SIGTERM, remember)
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    local_rank = int(os.environ["LOCAL_RANK"])
    if settings["backend"] == "nccl":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))

    steps, look_every = int(settings["steps"]), int(settings["look_every"])
    loader = DataLoader(
        TensorDataset(torch.tensor([float(share(rank, step)) for step in range(1, steps + 1)])),
        batch_size=None,
        num_workers=int(settings["workers"]),
        worker_init_fn=ignore_sigterm if settings["shield_workers"] else None,
    )
    batches = iter(loader)
    digest = right = 0.0
    for step, (sample,) in enumerate(batches, 1):
        time.sleep(float(settings["step_s"]))
        tensor = torch.full((int(settings["numel"]),), sample.item(), device=device)
        dist.all_reduce(tensor)
        digest = fold(digest, tensor.double().mean().item())
        right = fold(right, total(range(world_size), step))
        step_done(step)
        if step % look_every:
            continue
        stop = torch.tensor(float(bool(_told)), device=device)
        if settings["together"]:
            dist.all_reduce(stop, op=dist.ReduceOp.MAX)
        if stop.item():
            break
    with phase("last checkpoint", float(settings["allowance_s"])):
        dist.barrier()
        if rank == 0:
            with tempfile.TemporaryFile() as file:
                torch.save({"digest": digest, "step": step}, file)
        dist.barrier()
        report_result(digest - right)
        finished()
        del batches  # ends the workers
        dist.destroy_process_group()


def remember(number: int, _: FrameType | None) -> None:
    """Take note of the signal; the loop looks between two steps."""
    _told.append(number)


def ignore_sigterm(_: int) -> None:
    """Let a worker live on when the whole process group is told to end: the rank ends it when it is done."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def expected(settings: Settings, world_size: int) -> float | None:
    """Return 0: the sums of the steps that were made are right, however many these are."""
    return 0.0
