"""Shared memory that has no room left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.faults import _private_disk
from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - the one that every program uses


@dataclass(frozen=True, slots=True)
class ShmFull(RankFault):
    """The shared memory of the rank and its DataLoader workers is full, as in a container with its default of
    64 MiB. A worker that writes to a shared page that is not there ends by SIGBUS. Where torch hands over a
    batch it asks for the pages first (2.13), and the worker raises a `RuntimeError` instead: "unable to
    allocate shared memory". Seen in pytorch/pytorch#5040.

    From the start the rank has a /dev/shm of its own, which at the trigger shrinks to what is used and
    `bytes` more (in whole pages). Batches that wait to be taken stay. Needs a mount namespace.

    Example:

        faults:
          - shm-full: {rank: 1, bytes: 4096}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "shm-full"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    needs: ClassVar[tuple[str, ...]] = ("mount-namespaces",)

    rank: RankSet
    bytes: int = 0

    def __post_init__(self) -> None:
        if self.bytes < 0:
            raise ValueError(f"bytes must not be negative, is {self.bytes}")

    def install(self, here: Moment) -> None:
        _private_disk.mount_over(_SHARED_MEMORY)

    def fire(self, here: Moment) -> None:
        _private_disk.leave_free(_SHARED_MEMORY, self.bytes)
