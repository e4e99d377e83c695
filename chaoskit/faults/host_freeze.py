"""A host that stands still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults._hosts import NetworkFault, meant
from chaoskit.faults.family import Moment
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class HostFreeze(NetworkFault):
    """All processes on the host are stopped at once, as when a hypervisor pauses a machine or its kernel
    hangs: links stay up, connections are taken by the kernel, nobody answers. No launcher learns of it but
    by silence. `host` names another host than the rank's; `store` is that of the store.

    Needs virtual hosts (`topology: {hosts: 2}`).

    Example:

        faults:
          - host-freeze: {rank: 2}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "host-freeze"
    host_wide: ClassVar[bool] = True
    releases: ClassVar[Literal["at_end"]] = "at_end"

    host: str = ""

    def fire(self, here: Moment) -> None:
        self.order(here, Order("freeze", meant(self.host)))
