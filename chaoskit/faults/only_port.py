"""A firewall between hosts that lets one port through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults._hosts import NetworkFault, master_port
from chaoskit.faults.family import Moment
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class OnlyPort(NetworkFault):
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
    needs: ClassVar[tuple[str, ...]] = ("packet-rules",)

    port: int = 0

    def __post_init__(self) -> None:
        NetworkFault.__post_init__(self)  # super() does not work in a class with slots
        if not 0 <= self.port < 65536:
            raise ValueError(f"port must be between 1 and 65535, is {self.port}")

    def fire(self, here: Moment) -> None:
        port = self.port or master_port()
        self.order(here, Order("only-port", port=port))
