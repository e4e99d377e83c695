"""A link between a virtual host and its switch that goes down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults._hosts import NetworkFault, meant
from chaoskit.faults.family import Moment
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class LinkDown(NetworkFault):
    """The port of the switch into which the host is plugged goes down: a cable that is pulled, a switch that
    restarts. Nobody gets a FIN or RST; connections that exist live on if the link comes back in time
    (`back_after`), as TCP repeats what was lost. The host is the rank's, or `host`; the interface `nic`, or
    all that are in a switch.

    Needs virtual hosts (`topology: {hosts: 2}`).

    Example:

        faults:
          - link-down: {rank: 2, back_after: 1s}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "link-down"

    host: str = ""
    nic: str = ""

    def fire(self, here: Moment) -> None:
        self.order(here, Order("port", meant(self.host), self.nic))
