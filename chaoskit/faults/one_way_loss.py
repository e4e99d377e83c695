"""A host that is heard by nobody, though it hears all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults import _hosts
from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet, Span
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class OneWayLoss(RankFault):
    """What the host sends is lost at all others, without an error; what they send arrives. A broken fibre of
    a pair, an asymmetric route or filter. The host is the rank's, or `host`.

    Needs virtual hosts (`topology: {hosts: 2}`).

    Example:

        faults:
          - one-way-loss: {rank: 2}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "one-way-loss"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    needs_hosts: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("packet-rules",)

    rank: RankSet
    host: str = ""
    back_after_s: Span | float = _hosts.NEVER

    def __post_init__(self) -> None:
        _hosts.check_back_after(self.back_after_s)

    def fire(self, here: Moment) -> None:
        _hosts.order(here, Order("one-way", _hosts.meant(self.host)), self.back_after_s)
