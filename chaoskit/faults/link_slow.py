"""A link that crawls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults._hosts import NetworkFault, meant
from chaoskit.faults.family import Moment
from chaoskit.network import Order
from chaoskit.rates import HINT, rate_bps


@dataclass(frozen=True, slots=True)
class LinkSlow(NetworkFault):
    """The link of a host suddenly carries no more than `rate`, in both directions, as a cable or a port does
    that has negotiated a lower speed, or a network that others fill. Every connection lives; what is sent
    takes as long as it takes. The host is the rank's, or `host`; the interface `nic`, or all in a switch.

    Needs virtual hosts (`topology: {hosts: 2}`).

    Example:

        faults:
          - link-slow: {rank: 2, rate: 8kbit}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "link-slow"
    needs: ClassVar[tuple[str, ...]] = ("link-rate",)

    rate: str = "8kbit"
    host: str = ""
    nic: str = ""

    def __post_init__(self) -> None:
        NetworkFault.__post_init__(self)  # super() does not work in a class with slots
        try:
            rate_bps(self.rate)
        except ValueError as error:
            raise ValueError(f"rate {error} ({HINT})") from None

    def fire(self, here: Moment) -> None:
        what = Order("rate", meant(self.host), self.nic, rate_bps(self.rate))
        self.order(here, what)
