"""A link that crawls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults import _hosts
from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet, Span
from chaoskit.network import Order
from chaoskit.rates import rate_bps


@dataclass(frozen=True, slots=True)
class LinkSlow(RankFault):
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
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    needs_hosts: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("link-rate",)

    rank: RankSet
    rate: str = "8kbit"
    host: str = ""
    nic: str = ""
    back_after_s: Span | float = _hosts.NEVER

    def __post_init__(self) -> None:
        _hosts.check_back_after(self.back_after_s)
        rate_bps(self.rate)  # raises ValueError

    def fire(self, here: Moment) -> None:
        what = Order("rate", _hosts.meant(self.host), self.nic, rate_bps(self.rate))
        _hosts.order(here, what, self.back_after_s)
