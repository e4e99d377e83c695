"""A limit of address space that is truly exceeded."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet

_PIECE: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class MemoryLimit(RankFault):
    """The rank may have no more than `bytes` of address space beyond what it uses (RLIMIT_AS, as `ulimit -v`
    and some batch systems set it), and allocates tensors until torch's CPU allocator fails. That is a plain
    `RuntimeError`, which `except torch.OutOfMemoryError` does not catch. Needs no root; the limit stays.

    The limit is set at the trigger, after the process group has formed: set before, gloo's constructor can
    hang for good.

    Example:

        faults:
          - memory-limit: {rank: 1, bytes: 67108864}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "memory-limit"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT

    rank: RankSet
    bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if self.bytes < 1 << 20:
            raise ValueError(f"bytes must be at least 1048576 (1 MiB), is {self.bytes}")

    def fire(self, here: Moment) -> None:
        import torch

        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (used + self.bytes, hard))
        batch: list[torch.Tensor] = []
        try:
            while True:
                batch.append(torch.ones(_PIECE, dtype=torch.uint8))
        finally:
            # As when the frames of the failed step are gone: what follows has room to say what happened.
            batch.clear()
