"""Data that every host prepares once, under a lock file, before the training."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from chaoskit.progress import finished, report_result, step_done
from chaoskit.workloads import Setting, Settings
from chaoskit.workloads._digest import fold, share, total

SETTINGS: dict[str, Setting] = {"steps": 20, "step_s": 0.0, "numel": 1024, "careful": False}
OPS = {"default": ("all_reduce", "barrier")}
_POLL_S = 0.1


def main(settings: Settings) -> None:
    """Prepare what is not there, wait for the others that prepare, and train ``steps`` steps.

    Each rank stands for a host with a disk of its own: its folder is ``node<rank>`` in the arm's own. A rank
    that finds the data skips the barrier after the preparation. With ``careful`` the ranks agree on whether
    anybody prepares, and a lock whose owner is gone counts for nothing.
    """
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    device = "cpu"
    local_rank = int(os.environ["LOCAL_RANK"])
    if settings["backend"] == "nccl":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        device = "cuda"
    dist.init_process_group(str(settings["backend"]))

    careful = bool(settings["careful"])
    folder = Path(os.environ["CHAOSKIT_SCRATCH"], f"node{rank}")
    folder.mkdir(exist_ok=True)
    missing = not (folder / "prepared").exists()
    if careful:
        votes = torch.tensor(float(missing), device=device)
        dist.all_reduce(votes, op=dist.ReduceOp.MAX)
        missing = bool(votes.item())
    if missing:
        with locked(folder / "lock", careful):
            (folder / "data").write_bytes(bytes(4096))
        dist.barrier()
        (folder / "prepared").touch()

    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        time.sleep(float(settings["step_s"]))
        tensor = torch.full((int(settings["numel"]),), float(share(rank, step)), device=device)
        dist.all_reduce(tensor)
        digest = fold(digest, tensor.double().mean().item())
        step_done(step)
    dist.barrier()
    report_result(digest)
    finished()
    dist.destroy_process_group()


@contextlib.contextmanager
def locked(lock: Path, careful: bool) -> Iterator[None]:
    """Hold ``lock``, a file that exists as long as somebody does; it holds the owner's process id."""
    while True:
        try:
            file = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            break
        except FileExistsError:
            if careful and is_stale(lock):
                lock.unlink(missing_ok=True)
            else:
                time.sleep(_POLL_S)
    os.write(file, str(os.getpid()).encode())
    os.close(file)
    try:
        yield
    finally:
        lock.unlink()


def is_stale(lock: Path) -> bool:
    """Is the process that made ``lock`` gone?"""
    try:
        owner = int(lock.read_text() or "0")
    except (FileNotFoundError, ValueError):
        return False
    return not Path(f"/proc/{owner}").exists()


def expected(settings: Settings, world_size: int) -> float | None:
    """Return the digest of all sums."""
    digest = 0.0
    for step in range(1, int(settings["steps"]) + 1):
        digest = fold(digest, total(range(world_size), step))
    return digest
