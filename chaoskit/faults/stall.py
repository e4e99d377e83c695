"""A rank that does not come back for a while, or ever."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults.family import ANYWHERE, Moment, RankFault, check_duration, seconds_of
from chaoskit.model import RankSet, Span


@dataclass(frozen=True, slots=True)
class Stall(RankFault):
    """The rank's main thread waits outside of any collective, as on a hung file system, a lock, or a long
    save; its other threads go on. Seen in meta-pytorch/torchtune#2093 (a long checkpoint on rank 0) and
    NVIDIA/nccl#708 (data prepared on rank 0).

    `for` is a duration, a multiple of a timeout, or `forever`.

    Example:

        faults:
          - stall: {rank: 0, for: forever}
            when: {step: 5}
    """

    name: ClassVar[str] = "stall"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    releases: ClassVar[Literal["before"]] = "before"

    rank: RankSet
    for_s: Span | float | Literal["forever"] = "forever"

    def __post_init__(self) -> None:
        if not isinstance(self.for_s, str):
            check_duration("for", self.for_s)

    def fire(self, here: Moment) -> None:
        if not isinstance(self.for_s, str):
            time.sleep(seconds_of(self.for_s))
            return
        while True:
            time.sleep(3600)
