"""How the keepers of a job find the one of rank 0: through the store, while the process group forms.

Rank 0 puts the address into the store; every other rank reads it, connects, and hands the connection to
its own keeper. Runs beside ``init_process_group`` and never holds it up for more than a moment; what fails
here is given up in silence, because a job without connected keepers is no worse than one without.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from chaoskit.guards.early_store import Place, open_store, place_of
from chaoskit.sidecar.links import Address
from chaoskit.sidecar.protection import Protection

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

_CONNECT_S = 2.0
_OPEN_S = 5.0
_SETTLE_S = 2.0
"""How long a formed group is held up, at most, for a rank whose keeper is not connected yet."""
_PAUSE_S = 0.02


class Meeting:
    """The hook around ``init_process_group``, in one rank."""

    def __init__(self, protection: Protection) -> None:
        self._protection = protection
        self._met = False
        self._process = os.getpid()
        self._over = threading.Event()
        self._seeker: threading.Thread | None = None
        self._open: Store | None = None  # keeps rank 0's server alive until torch shares it
        attempt = [os.environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT")]
        self._key = "/".join(("chaoskit/sidecar", *attempt))

    def before_init(self, given: dict[str, Any]) -> None:
        """Rank 0 that hosts the store does so now; whoever only visits it does that in a thread."""
        place = place_of(given)
        if (
            self._met
            or self._forked
            or not place.host
            or place.port <= 0
            or given.get("backend") in ("mpi", "fake")
        ):
            return
        if place.hosted_here:
            with contextlib.suppress(RuntimeError):  # taken: torch says so next
                self._open = open_store(place.host, place.port, _OPEN_S, serve=True)
                self._meet(self._open)
            return
        self._over.clear()
        self._seeker = threading.Thread(
            target=self._seek, args=(place,), name="chaoskit sidecar", daemon=True
        )
        self._seeker.start()

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        if self._seeker is not None and error is None and not self._met:
            self._seeker.join(_SETTLE_S)
        self._over.set()
        self._open = None
        if error is None and not self._met and not self._forked:
            from torch.distributed import distributed_c10d

            with contextlib.suppress(RuntimeError, ValueError):  # of the store; no default group
                store = distributed_c10d._get_default_store()
                if self._protection.address is None:
                    store.wait([self._key], timedelta(seconds=_SETTLE_S))
                self._meet(store)

    @property
    def _forked(self) -> bool:
        """A child of the rank has no keeper."""
        return os.getpid() != self._process

    def _seek(self, place: Place) -> None:
        """Try again until the store is there and rank 0 has been. Each try is short: the process may want to
        end meanwhile."""
        while not self._over.is_set():
            with contextlib.suppress(RuntimeError, OSError):
                socket.create_connection((place.host, place.port), _CONNECT_S).close()
                store = open_store(place.host, place.port, _OPEN_S, serve=False)
                while not self._over.is_set() and not self._met:
                    if self._protection.address is not None or store.check([self._key]):
                        self._meet(store)
                        return
                    self._over.wait(_PAUSE_S)
            self._over.wait(_PAUSE_S * 5)

    def _meet(self, store: Store) -> None:
        """Rank 0: say where its keeper listens. Others: connect to it, for their own keeper."""
        if self._protection.address is not None:
            store.set(self._key, self._protection.address.to_json())
            self._met = True
            return
        address = Address.from_json(store.get(self._key))
        connection = _connect(address)
        if connection is not None and not self._met:
            self._met = True
            with contextlib.suppress(OSError), connection:
                self._protection.hand_over(connection, address.token)


def _connect(address: Address) -> socket.socket | None:
    """Connect to the first of the hosts that answers; the one that the launcher calls the master is one."""
    master = os.environ.get("MASTER_ADDR", "")
    hosts = address.hosts if "127.0.0.1" in address.hosts or not master else (master, *address.hosts)
    until = time.monotonic() + _CONNECT_S * len(hosts)
    for host in hosts:
        with contextlib.suppress(OSError):
            left = max(0.1, min(_CONNECT_S, until - time.monotonic()))
            connection = socket.create_connection((host, address.port), left)
            connection.settimeout(None)
            return connection
    return None
