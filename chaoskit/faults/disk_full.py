"""A disk that has no room left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults import _private_disk
from chaoskit.faults._paths import check_folder, folder
from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import SCRATCH, RankSet


@dataclass(frozen=True, slots=True)
class DiskFull(RankFault):
    """The disk that the rank writes to is full (ENOSPC): `torch.save` raises half-way, and leaves a file that
    cannot be loaded. A script that logs the error and goes on skips what it would have done afterwards, such
    as a barrier. Seen in h2oai/h2o-llmstudio#214.

    The rank has a disk of its own in the place of the folder `path`, as a local disk of a host is: empty at
    the start, seen by nobody else, gone with the rank. At the trigger it shrinks to what is used and `bytes`
    more (in whole pages). `{scratch}` is a folder of the arm. Needs a mount namespace.

    Example:

        faults:
          - disk-full: {rank: 0, path: "{scratch}", bytes: 65536}
            when: {op: barrier, nth: 3}
    """

    name: ClassVar[str] = "disk-full"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    needs: ClassVar[tuple[str, ...]] = ("mount-namespaces",)

    rank: RankSet
    path: str = SCRATCH
    bytes: int = 0

    def __post_init__(self) -> None:
        check_folder(self.path)
        if self.bytes < 0:
            raise ValueError(f"bytes must not be negative, is {self.bytes}")

    def install(self, here: Moment) -> None:
        _private_disk.mount_over(folder(self.path, here.rank))

    def fire(self, here: Moment) -> None:
        _private_disk.leave_free(folder(self.path, here.rank), self.bytes)
