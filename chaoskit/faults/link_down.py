"""A link between a virtual host and its switch that goes down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults import _hosts
from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet, Span
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class LinkDown(RankFault):
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
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    needs_hosts: ClassVar[bool] = True

    rank: RankSet
    host: str = ""
    nic: str = ""
    back_after_s: Span | float = _hosts.NEVER

    def __post_init__(self) -> None:
        _hosts.check_back_after(self.back_after_s)

    def fire(self, here: Moment) -> None:
        _hosts.order(here, Order("port", _hosts.meant(self.host), self.nic), self.back_after_s)
