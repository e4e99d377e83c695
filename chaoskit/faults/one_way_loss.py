"""A host that is heard by nobody, though it hears all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults._hosts import NetworkFault, meant
from chaoskit.faults.family import Moment
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class OneWayLoss(NetworkFault):
    """What the host sends is lost at all others, without an error; what they send arrives. A broken fibre of
    a pair, an asymmetric route or filter. The host is the rank's, or `host`.

    Needs virtual hosts (`topology: {hosts: 2}`).

    Example:

        faults:
          - one-way-loss: {rank: 2}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "one-way-loss"
    needs: ClassVar[tuple[str, ...]] = ("packet-rules",)

    host: str = ""

    def fire(self, here: Moment) -> None:
        self.order(here, Order("one-way", meant(self.host)))
