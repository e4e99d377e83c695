"""A firewall between hosts that lets one port through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults import _hosts
from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet, Span
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class OnlyPort(RankFault):
    """Between hosts only TCP for and from `port` gets through, without `port` that of MASTER_PORT; everything
    else is dropped without an error. So the ranks meet at the store, and then cannot connect to one another:
    a security group that was opened for the rendezvous only. Within a host nothing changes.

    Needs virtual hosts (`topology: {hosts: 2}`). `when: init` is after what guards do before the process
    group forms; the call of init_process_group, as here, is before that.

    Example:

        faults:
          - only-port: {rank: 0}
            when: {call: torch.distributed.init_process_group}
    """

    name: ClassVar[str] = "only-port"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    needs_hosts: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("packet-rules",)

    rank: RankSet
    port: int = 0
    back_after_s: Span | float = _hosts.NEVER

    def __post_init__(self) -> None:
        _hosts.check_back_after(self.back_after_s)
        if not 0 <= self.port < 65536:
            raise ValueError(f"port must be between 1 and 65535, is {self.port}")

    def fire(self, here: Moment) -> None:
        port = self.port or _hosts.master_port()
        _hosts.order(here, Order("only-port", port=port), self.back_after_s)
