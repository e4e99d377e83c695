"""A network that falls into two parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults._hosts import NetworkFault, meant
from chaoskit.faults.family import Moment
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class Partition(NetworkFault):
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

    apart: tuple[str, ...] = ()

    def fire(self, here: Moment) -> None:
        apart = self.apart or (meant(""),)
        self.order(here, Order("partition", hosts=apart))
