"""A port that another program has."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults.family import RankFault
from chaoskit.model import Plan, RankSet


@dataclass(frozen=True, slots=True)
class PortTaken(RankFault):
    """Another program listens on MASTER_PORT before rank 0 does, as an orphan of the last job does: rank 0
    fails with EADDRINUSE; the others connect to the stranger, which never answers.
    Seen in pytorch/pytorch#126510, meta-pytorch/torchtune#1025.

    Example:

        faults:
          - port-taken: {}
            when: launch
    """

    name: ClassVar[str] = "port-taken"
    triggers: ClassVar[frozenset[str]] = frozenset({"launch"})

    rank: RankSet = (0,)

    def prepare(self, arm_id: str, plan: Plan) -> Callable[[], None]:
        """Listen on the port in the parent of the ranks, in the network that they have."""
        try:
            listener = socket.create_server(
                ("::", plan.master_port), family=socket.AF_INET6, dualstack_ipv6=True
            )
        except (OSError, ValueError):  # no IPv6 here
            listener = socket.create_server(("", plan.master_port))
        return listener.close

    def environment(self, env: dict[str, str]) -> None:
        """The launcher notices nothing."""
