"""Are the network interfaces that GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME name there? Reads this host
only."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

_SIOCGIFADDR = 0x8915


def problems(backend: str) -> list[str]:
    """Return what is wrong with the interface names that ``backend`` will read ('' : may be any)."""
    found = []
    names = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if names and (backend in ("", "undefined") or "gloo" in backend):
        wrong = filter(None, map(_problem, names.split(",")))  # gloo takes exact names
        here = ", ".join(_existing())
        found += [f"GLOO_SOCKET_IFNAME={names}: {problem}; here are {here}" for problem in wrong]
    names = os.environ.get("NCCL_SOCKET_IFNAME", "")
    if (
        names
        and "nccl" in backend
        and not names.startswith("^")
        and not any(map(_nccl_matches, names.split(",")))
    ):
        found.append(f"NCCL_SOCKET_IFNAME={names}: no interface matches; here are {', '.join(_existing())}")
    return found


def _existing() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def _nccl_matches(wanted: str) -> bool:
    """NCCL takes prefixes; ``=eth0`` is exact."""
    if wanted.startswith("="):
        return wanted[1:].partition(":")[0] in _existing()
    return any(name.startswith(wanted.partition(":")[0]) for name in _existing())


def _problem(name: str) -> str:
    if name not in _existing():
        return f"there is no interface {name!r}"
    return "" if _has_address(name) else f"interface {name!r} has no address"


def _has_address(name: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            pass
        else:
            return True
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as table:
            return any(line.split()[-1] == name for line in table)
    except OSError:
        return True  # cannot be known here: not called wrong
