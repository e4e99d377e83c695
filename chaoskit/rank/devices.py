"""Whether this rank can use a GPU at all, before its script asks for one.

Asks the driver through NVML only (``torch.cuda.device_count`` before CUDA is initialised does): a CUDA
context is the script's to make.
"""

from __future__ import annotations

from typing import Final

import torch

from chaoskit.model import Plan

POISONED: Final = (
    "CUDA was initialised in the process that this rank was forked from, and a forked process cannot use it "
    "then: what the fork server loads (a fault or guard of another package?) uses CUDA at its import"
)
_NONE: Final = (
    "torch sees no GPU in this rank (CUDA_VISIBLE_DEVICES, or a torch without CUDA), and nccl needs one"
)


class NoDevice(Exception):
    """Why a rank cannot run on nccl."""


def check(plan: Plan) -> None:
    """Raise NoDevice where a rank of ``plan`` needs a GPU and cannot have one."""
    if plan.backend != "nccl":
        return
    if torch.cuda._is_in_bad_fork():
        raise NoDevice(POISONED)
    if torch.cuda.device_count() == 0:
        raise NoDevice(_NONE)
