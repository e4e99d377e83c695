"""What is wrong with the settings of a DataLoader, on this host. Reads only, and makes no sample of a data
set."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.guards.context import number

_MIB = 1 << 20
_SHM = "/dev/shm"  # noqa: S108 - where torch puts shared memory


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing in one line; whether it fails, or is only slow or risky."""

    text: str
    fails: bool = False


def of_settings(given: Mapping[str, Any]) -> list[Finding]:
    """Look at the arguments of ``DataLoader(…)``, by name, before torch does."""
    import torch

    workers = given.get("num_workers") or 0
    found = []
    if given.get("persistent_workers") and workers == 0:
        hint = "set num_workers, or leave persistent_workers out"
        found.append(Finding(f"persistent_workers=True with num_workers=0; {hint}", fails=True))
    initialized: Callable[[], bool] = torch.cuda.is_initialized
    cuda = torch.cuda.is_available() and initialized()
    if cuda and not given.get("pin_memory"):
        found.append(Finding("CUDA is used and pin_memory is not set: each copy to the GPU blocks"))
    if workers:
        found += _workers(workers, given, cuda)
    return found


def _workers(workers: int, given: Mapping[str, Any], cuda: bool) -> list[Finding]:
    found = []
    ranks, have = max(1, number("LOCAL_WORLD_SIZE")), cores()
    if workers * ranks > have:
        of = f"{workers} workers × {ranks} ranks" if ranks > 1 else f"{workers} workers"
        found.append(Finding(f"{of} on {have} cores of this host: they slow each other and the ranks down"))
    if cuda and _is_forked(given.get("multiprocessing_context")):
        if _holds_cuda(given.get("dataset")):
            text = "the data set holds CUDA tensors, and forked workers cannot use CUDA"
            found.append(Finding(f"{text}; keep it on the CPU or use multiprocessing_context='spawn'", True))
        else:
            found.append(Finding("workers are forked after CUDA was initialised: they must not touch CUDA"))
    return found


def of_room(loader: Any, batch: int) -> list[Finding]:
    """Compare what the workers of ``loader`` (or of its iterator) fetch ahead with the room in /dev/shm."""
    given: dict[str, Any] = vars(loader)
    workers = given.get("num_workers") or given.get("_num_workers") or 0
    ahead = given.get("prefetch_factor") or given.get("_prefetch_factor") or 2
    free = _shm_free()
    ranks = max(1, number("LOCAL_WORLD_SIZE"))
    needed = batch * workers * ahead * ranks
    if free is None or needed <= free:
        return []
    what = f"{workers} workers × {ahead} batches × {batch / _MIB:.3g} MiB" + (
        f" × {ranks} ranks" if ranks > 1 else ""
    )
    hint = "enlarge it (docker run --shm-size), or use fewer workers or a smaller prefetch_factor"
    have, need = f"{free / _MIB:.4g} MiB free", f"{needed / _MIB:.4g} MiB"
    text = f"{_SHM} has {have} and {what} = {need} are fetched ahead; {hint}"
    return [Finding(text, fails=True)]


def batch_bytes(loader: Any) -> int:
    """The size of a batch of a TensorDataset; 0 for any other, whose samples would have to be made."""
    from torch.utils.data import TensorDataset

    if not isinstance(loader.dataset, TensorDataset) or not loader.batch_size:
        return 0
    per_sample = sum(t[0].numel() * t.element_size() for t in loader.dataset.tensors if len(t))
    return int(per_sample * loader.batch_size)


def bytes_of(batch: Any) -> int:
    """How much of ``batch`` travels through shared memory: its tensors."""
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.numel() * batch.element_size()
    if isinstance(batch, Mapping):
        return sum(map(bytes_of, batch.values()))
    if isinstance(batch, (list, tuple)):
        return sum(map(bytes_of, batch))
    return 0


def cores() -> int:
    """How many cores this process may use at once: of the machine, within the quota of its control group."""
    have = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = (int(part) for part in file.read().split())
    except (OSError, ValueError):  # no control groups of version 2, or no quota ("max")
        return have
    return min(have, max(1, -(-quota // period)))


def _shm_free() -> int | None:
    try:
        room = os.statvfs(_SHM)
    except OSError:
        return None
    return room.f_bavail * room.f_frsize


def _is_forked(context: Any) -> bool:
    if context is None:
        return multiprocessing.get_start_method() == "fork"
    return context == "fork" or getattr(context, "_name", "") == "fork"


def _holds_cuda(dataset: Any) -> bool:
    import torch

    held = [*getattr(dataset, "__dict__", {}).values(), *getattr(dataset, "tensors", ())]
    return any(isinstance(value, torch.Tensor) and value.is_cuda for value in held)
