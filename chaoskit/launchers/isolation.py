"""Puts an arm into a network of its own, so that arms cannot meet on a port and no name server is asked.

Whether this machine lets us is tried once in a child of the server, as a refusal half-way (a new namespace
whose ``lo`` cannot be brought up) could not be undone in the warden.
"""

from __future__ import annotations

import os

from chaoskit.hosts import namespaces

_possible: bool | None = None


def try_out() -> bool:
    """Fork a child that tries, and remember what came of it for all who are forked later."""
    global _possible
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            namespaces.own_network_namespace()
            code = 0
        finally:
            os._exit(code)
    _possible = os.waitpid(pid, 0)[1] == 0
    return _possible


def enter() -> bool:
    """Give this process, and all that it will start, its own network. Return whether that could be done."""
    possible = try_out() if _possible is None else _possible
    if possible:
        namespaces.own_network_namespace()
    return possible
