"""A rank that is slower than the others all the time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults.family import Moment, RankFault, check_duration, seconds_of
from chaoskit.model import RankSet, Span


@dataclass(frozen=True, slots=True)
class Slow(RankFault):
    """The rank takes longer by a constant time at every match from the nth on, as with a throttled GPU or
    a busy host. Nothing is broken: the job only gets slower, and a guard must not end it.

    Example:

        faults:
          - slow: {rank: 2, by: 20ms}
            when: {op: all_reduce, nth: 1}
    """

    name: ClassVar[str] = "slow"
    triggers: ClassVar[frozenset[str]] = frozenset(
        {"collective", "step", "call", "forward", "backward", "loader"}
    )
    repeats: ClassVar[bool] = True
    releases: ClassVar[Literal["before"]] = "before"

    rank: RankSet
    by_s: Span | float

    def __post_init__(self) -> None:
        check_duration("by", self.by_s)

    def fire(self, here: Moment) -> None:
        time.sleep(seconds_of(self.by_s))
