"""Ports for jobs of tests: what was free when it was asked for stays free until the job binds it.

A port that the kernel chooses it may give to any other socket as soon as it is closed. These are below the
kernel's own choices and chaoskit's (``chaoskit.plan.PORTS``), and each run of the tests has a block of them.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from functools import cache

FIRST, LAST = 10_000, 15_000
BLOCK = 250


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nobody listens, and that nobody else is going to choose."""
    for port in itertools.islice(_ports(), BLOCK):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise OSError("all ports of this run are taken")


@cache
def _ports() -> Iterator[int]:
    first = _block()[1]
    return itertools.cycle(range(first, first + BLOCK))


@cache
def _block() -> tuple[socket.socket, int]:
    """The first port of a block, and what keeps other runs out of it: a name that goes with this process."""
    for first in range(FIRST, LAST, BLOCK):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0chaoskit-tests-ports-{first}")
        except OSError:
            claim.close()
            continue
        return claim, first
    raise OSError("every block of ports is taken by a run of the tests")
