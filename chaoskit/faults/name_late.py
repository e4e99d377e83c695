"""A host name that is published late."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults._hosts import NetworkFault, meant
from chaoskit.faults.family import Moment
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class NameLate(NetworkFault):
    """A name does not resolve on the host yet, and does so `back_after` later, as in a cluster where a name
    service learns of a node after it has started. The host is the rank's, or `host`; the name `address`, or
    that in MASTER_ADDR.

    Needs virtual hosts (`topology: {hosts: 2}`). Other ranks on that host may have passed that moment: it is
    certain to hit the rank that comes to it.

    Example:

        faults:
          - name-late: {rank: 2, back_after: 2s}
            when: {call: torch.distributed.init_process_group}
    """

    name: ClassVar[str] = "name-late"

    host: str = ""
    address: str = ""

    def fire(self, here: Moment) -> None:
        name = self.address or os.environ.get("MASTER_ADDR", "")
        self.order(here, Order("name", meant(self.host), name=name))
