"""A network that falls into two parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults import _hosts
from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet, Span
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class Partition(RankFault):
    """The hosts of `apart` no longer reach the others, nor these them, while every link stays up and nobody
    gets an error: two switches that have lost the line between them, a wrong rule of a firewall. Without
    `apart` it is the host of the rank that stands alone.

    Needs virtual hosts (`topology: {hosts: 2}`).

    Example:

        faults:
          - partition: {rank: 0, apart: [hostC, hostD]}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "partition"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    needs_hosts: ClassVar[bool] = True

    rank: RankSet
    apart: tuple[str, ...] = ()
    back_after_s: Span | float = _hosts.NEVER

    def __post_init__(self) -> None:
        _hosts.check_back_after(self.back_after_s)

    def fire(self, here: Moment) -> None:
        apart = self.apart or (_hosts.meant(""),)
        _hosts.order(here, Order("partition", hosts=apart), self.back_after_s)
