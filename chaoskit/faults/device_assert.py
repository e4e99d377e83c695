"""An assertion that fails on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class DeviceAssert(RankFault):
    """A kernel of the rank fails an assertion: an index out of bounds, as a label beyond the last class or a
    token beyond the vocabulary gives. The error is *sticky*: from then on every CUDA call of the process
    fails with `CUDA error: device-side assert triggered`, whatever the script catches, and so does NCCL
    (`Cuda failure 710`). Only a new process helps. Seen in NVIDIA/nccl#1504.

    Kernels run later than the line that starts them, so the error comes out of the next call that waits or
    launches, often the collective. With `at_once: true` the rank waits for the kernel, and the error comes
    out of the line that is to blame.

    Example:

        faults:
          - device-assert: {rank: 1, at_once: false}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "device-assert"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT - {"after"}
    needs: ClassVar[tuple[str, ...]] = ("nccl",)

    rank: RankSet
    at_once: bool = False

    def fire(self, here: Moment) -> None:
        import torch

        classes = torch.zeros(1, device="cuda")
        label = torch.ones(1, dtype=torch.int64, device="cuda")
        classes[label]
        if self.at_once:
            torch.cuda.synchronize()
