"""Lets a rank wait until the store of rank 0 listens.

A client that comes first backs off for 0.4 to 0.8 s, which would be chaoskit's own delay in every arm. Not
used where the forming of the process group is the subject.
"""

from __future__ import annotations

import os
import time
from typing import Final

LONGEST_WAIT_S: Final = 2.0
_POLL_S: Final = 0.002
_LISTEN: Final = "0A"


def wait_for_store(rank: int, pid: int = 0) -> None:
    """Return once MASTER_PORT is listened on in the network of ``pid`` (0: this one's); after 2 s in any
    case."""
    port = os.environ.get("MASTER_PORT", "")
    if rank <= 0 or not port.isdigit():
        return
    give_up = time.monotonic() + LONGEST_WAIT_S
    while not is_listened_on(int(port), pid) and time.monotonic() < give_up:
        time.sleep(_POLL_S)


def is_listened_on(port: int, pid: int = 0) -> bool:
    """Return whether any socket of the network of ``pid`` (0: of this process) listens on ``port``."""
    suffix = f":{port:04X}"
    of = f"/proc/{pid or 'self'}/net"
    for table in (f"{of}/tcp6", f"{of}/tcp"):
        try:
            with open(table, encoding="ascii") as file:
                rows = file.readlines()[1:]
        except OSError:
            continue
        for row in rows:
            _, local, _, state, *_ = row.split()
            if state == _LISTEN and local.endswith(suffix):
                return True
    return False
