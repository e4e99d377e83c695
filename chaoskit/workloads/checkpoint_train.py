"""A DDP training loop that saves checkpoints by rank 0 between barriers, and resumes from the newest."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.progress import finished, phase, report_result
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel

SETTINGS: dict[str, Setting] = {
    "steps": 20,
    "step_s": 0.0,
    "numel": 65536,
    "checkpoint_every": 5,
    "checkpoint_allowance_s": 10.0,
    "resume": False,
    "goes_on": False,
}
OPS = {"default": ("all_reduce", "broadcast", "all_gather", "barrier")}


def main(settings: Settings) -> None:
    """Train ``numel`` weights for ``steps`` steps; every ``checkpoint_every`` rank 0 saves what it has.

    The files are ``step-N.pt`` in the folder that CHAOSKIT_SCRATCH names. With ``resume`` every rank begins
    with the newest one that it sees. With ``goes_on`` a checkpoint that cannot be saved is logged, and
    training goes on, as scripts do for which an old checkpoint is better than an end. It reads harmlessly,
    and skips a barrier on that rank.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Model(torch.nn.Module):
        def __init__(self, numel: int) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(numel))

        def forward(self, sample: torch.Tensor) -> torch.Tensor:
            return self.weight.sum() * sample

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    if settings["backend"] == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))
    folder = Path(os.environ["CHAOSKIT_SCRATCH"])

    model = DistributedDataParallel(Model(int(settings["numel"])).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-10)
    done, digest = _resume(model, folder) if settings["resume"] else (0, 0.0)
    for step in range(done + 1, int(settings["steps"]) + 1):
        time.sleep(float(settings["step_s"]))
        optimizer.zero_grad()
        model(torch.tensor(float(share(rank, step)), device=device)).backward()
        gradient = model.module.weight.grad
        digest = fold(digest, float(round(gradient.double().mean().item() * world_size)))
        optimizer.step()
        if step % int(settings["checkpoint_every"]) == 0:
            state = {"model": model.module.state_dict(), "step": step, "digest": digest}
            try:
                dist.barrier()
                if rank == 0:
                    with phase("checkpoint", float(settings["checkpoint_allowance_s"])):
                        torch.save(state, folder / f"step-{step}.pt")
                dist.barrier()
            except (OSError, RuntimeError) as error:
                if not settings["goes_on"]:
                    raise
                print(f"rank {rank}: no checkpoint of step {step}: {error}", flush=True)
    report_result(digest)
    finished()
    # A reducer that is freed after the group can hang for good (its gloo thread wants the GIL that it holds).
    del model, optimizer, gradient
    dist.destroy_process_group()


def _resume(model: DistributedDataParallel, folder: Path) -> tuple[int, float]:
    """Return the step and the digest of the newest checkpoint, whose weights the model has then."""
    import torch

    saved = sorted(folder.glob("step-*.pt"), key=lambda file: int(file.stem.rpartition("-")[2]))
    if not saved:
        return 0, 0.0
    state: dict[str, Any] = torch.load(saved[-1])
    model.module.load_state_dict(state["model"])
    return int(state["step"]), float(state["digest"])


def expected(settings: Settings, world_size: int) -> float | None:
    """Return the digest of the sums of all gradients; a run that resumes has it from the checkpoint."""
    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        digest = fold(digest, total(range(world_size), step))
    return digest
