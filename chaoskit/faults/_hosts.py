"""What the faults of virtual hosts share: who is meant, for how long, and how the network is changed.

Such a fault says with ``rank`` who comes to the moment, and means that rank's host unless ``host`` names
another.
"""

from __future__ import annotations

import dataclasses
import math
import os
import socket
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults.family import ANYWHERE, Moment, RankFault, check_duration, seconds_of
from chaoskit.model import RankSet, Span
from chaoskit.network import Order

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class NetworkFault(RankFault):
    """A change of the network that is undone after ``back_after_s``. Subclasses say which."""

    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    needs_hosts: ClassVar[bool] = True

    rank: RankSet
    back_after_s: Span | float = dataclasses.field(default=NEVER, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.back_after_s, Span) or not math.isinf(self.back_after_s):
            check_duration("back_after", self.back_after_s)

    def order(self, here: Moment, what: Order) -> None:
        """Have the network changed before this returns. Raises RuntimeError where it cannot be."""
        here.network(dataclasses.replace(what, for_s=seconds_of(self.back_after_s)))


def meant(host: str) -> str:
    """Return the name of the host that a fault means."""
    return host or socket.gethostname()


def master_port() -> int:
    """Return MASTER_PORT as this rank was given it; 0 where it was not."""
    text = os.environ.get("MASTER_PORT", "")
    return int(text) if text.isdigit() else 0
