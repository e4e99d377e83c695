"""The store that a process group is about to form with, opened before it forms. Knows where it is; puts
nothing into it.

torch's own rendezvous opens the same store next; rank 0's server is shared with it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from weakref import WeakValueDictionary

from chaoskit.guards.context import number

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store, TCPStore


_opened: WeakValueDictionary[tuple[str, int, bool], TCPStore] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Place:
    """Where the store is. ``store`` is set where the script brought its own; ``host`` is '' where it cannot
    be told. ``hosted_here``: this rank holds it; ``hosted_by_launcher``: no rank does (torchrun's agent, or
    chaoskit.guards.store_outside)."""

    host: str = ""
    port: int = 0
    hosted_here: bool = False
    hosted_by_launcher: bool = False
    store: Store | None = None


def place_of(given: dict[str, Any]) -> Place:
    """Return where ``init_process_group(**given)`` will look for its store."""
    method = given.get("init_method") or "env://"
    rank = given.get("rank", -1)
    rank = rank if isinstance(rank, int) and rank >= 0 else number("RANK")
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and method.startswith("env://")
    hosted_here = rank == 0 and not agent
    if given.get("store") is not None:
        return Place(hosted_here=hosted_here, store=given["store"])
    if method.startswith("tcp://"):
        url = urlparse(method)
        host, port = url.hostname or "", url.port or 0
    else:
        host, port = os.environ.get("MASTER_ADDR", ""), number("MASTER_PORT")
    known = method.startswith(("tcp://", "env://")) and port >= 0
    return Place(host, port, hosted_here, agent) if known else Place()


def open_store(host: str, port: int, within_s: float, *, serve: bool) -> TCPStore:
    """Open the store as torch's rendezvous does, but without waiting for the other ranks. Rank 0's server
    is shared with the one that torch opens next on the same port (multi_tenant). Raises RuntimeError.

    A client that another guard still holds is given out again: torch looks up a name for each new connection,
    which takes seconds where a name server does not answer."""
    from torch._C._distributed_c10d import TCPStore

    opened = _opened.get((host, port, serve))
    if opened is not None:
        return opened
    store = _opened[host, port, serve] = TCPStore(
        host,
        port,
        None,
        serve,
        timedelta(seconds=max(0.1, within_s)),
        wait_for_workers=False,
        multi_tenant=serve,
        use_libuv=os.environ.get("USE_LIBUV", "1") == "1",
    )
    return store
