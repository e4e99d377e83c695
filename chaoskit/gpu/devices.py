"""The GPUs that a rank would see: values, and the rule of CUDA_VISIBLE_DEVICES. Asks nobody.

What the driver says comes from :mod:`chaoskit.gpu.nvml`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

ComputeMode = Literal["default", "exclusive", "prohibited"]
MASK: Final = "CUDA_VISIBLE_DEVICES"
_LEADING_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of this machine. ``free_mib`` is what nobody uses now. With ``compute_mode`` exclusive one
    process at a time may use it."""

    index: int
    name: str = ""
    uuid: str = ""
    total_mib: int = 0
    free_mib: int = 0
    compute_mode: ComputeMode = "default"


def visible(gpus: tuple[Gpu, ...], mask: str | None) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA shows a process whose CUDA_VISIBLE_DEVICES is ``mask``, in its order.

    As CUDA reads it: the first entry that names no GPU ends the list, one named twice empties it. Of MIG
    instances CUDA shows one; what GPU it is a part of is not known here.
    """
    if mask is None:
        return gpus
    entries = [entry.strip() for entry in mask.split(",")]
    if entries[0].startswith("MIG-"):
        return (Gpu(0, "MIG instance", entries[0]),)
    chosen: list[Gpu] = []
    for entry in entries:
        found = _named(gpus, entry)
        if found is None:
            break
        if found in chosen:
            return ()
        chosen.append(found)
    return tuple(chosen)


def _named(gpus: tuple[Gpu, ...], entry: str) -> Gpu | None:
    """A GPU by its number, or by as much of its UUID as makes it the only one."""
    if entry.startswith("GPU-"):
        named = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
        return named[0] if len(named) == 1 else None
    number = _LEADING_NUMBER.match(entry)
    return next((gpu for gpu in gpus if number is not None and gpu.index == int(number[0])), None)
