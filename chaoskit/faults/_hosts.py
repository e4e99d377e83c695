"""What the faults of virtual hosts share: whose host is meant, and for how long.

A fault of the network says with ``rank`` who comes to the moment, and means that rank's host unless ``host``
names another.
"""

from __future__ import annotations

import math
import os
import socket

from chaoskit.faults.family import Moment, check_duration, seconds_of
from chaoskit.model import Span
from chaoskit.network import Order

NEVER = float("inf")


def meant(host: str) -> str:
    """Return the name of the host that a fault means."""
    return host or socket.gethostname()


def check_back_after(value: Span | float) -> None:
    """Raise ValueError unless ``value`` is more than nothing."""
    if isinstance(value, Span) or not math.isinf(value):
        check_duration("back_after", value)


def order(here: Moment, what: Order, back_after: Span | float) -> None:
    """Have the network changed for that long, before this returns. Raises RuntimeError where it cannot be."""
    here.network(
        Order(what.kind, what.host, what.nic, what.rate_bps, what.hosts, what.port, what.name,
              seconds_of(back_after))
    )  # fmt: skip


def master_port() -> int:
    """Return MASTER_PORT as this rank was given it; 0 where it was not."""
    text = os.environ.get("MASTER_PORT", "")
    return int(text) if text.isdigit() else 0
