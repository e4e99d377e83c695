"""A process that goes home early."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class Leave(RankFault):
    """The rank exits by itself before its work is done, by default with code 0: launchers take it for a
    success and blame whoever fails next. Seen in modelscope/ms-swift#9188, where ranks exit while one
    still saves and then needs a collective.

    The exit is `os._exit`: output is flushed, nothing is torn down.

    Example:

        faults:
          - leave: {rank: 1, code: 0}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "leave"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    releases: ClassVar[Literal["at_end"]] = "at_end"

    rank: RankSet
    code: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.code <= 255:
            raise ValueError(f"code must be an exit code from 0 to 255, is {self.code}")

    def fire(self, here: Moment) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self.code)
