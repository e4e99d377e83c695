"""A limit of open files that is reached."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class OpenFiles(RankFault):
    """The rank may open no more than `spare` files beyond those it has open (RLIMIT_NOFILE, `ulimit -n`), as
    when descriptors leak, or each tensor that a DataLoader worker hands over takes one: "Too many open
    files", in whatever opens the next one. Needs no root; the limit stays, also for processes that are
    started afterwards. Seen in pytorch/pytorch#973.

    Example:

        faults:
          - open-files: {rank: 1, spare: 2}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "open-files"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    any_thread: ClassVar[bool] = True

    rank: RankSet
    spare: int = 0

    def __post_init__(self) -> None:
        if self.spare < 0:
            raise ValueError(f"spare must not be negative, is {self.spare}")

    def fire(self, here: Moment) -> None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (_limit(self.spare), hard))


def _limit(spare: int) -> int:
    """Return the limit below which exactly ``spare`` numbers are free: the kernel always takes the lowest."""
    listed = map(int, os.listdir("/proc/self/fd"))  # with the one for the listing, closed by now
    taken = set(filter(_is_open, listed))
    limit = free = 0
    while free < spare or limit in taken:
        free += limit not in taken
        limit += 1
    return limit


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
