"""The network interfaces of this host and their addresses; whether those that GLOO_SOCKET_IFNAME and
NCCL_SOCKET_IFNAME name are there. Reads this host only."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from dataclasses import dataclass

_SIOCGIFADDR = 0x8915
_IFF_UP, _IFF_RUNNING = 0x1, 0x40


@dataclass(frozen=True, slots=True)
class Address:
    """One address of one interface. ``scope`` is an interface's number, for IPv6 addresses that mean
    something on one link only; else 0. ``runs``: it is up and has a carrier."""

    interface: str
    family: int
    ip: str
    scope: int = 0
    runs: bool = True


class _IfAddrs(ctypes.Structure):
    """struct ifaddrs of getifaddrs(3)."""


_IfAddrs._fields_ = [
    ("next", ctypes.POINTER(_IfAddrs)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
    ("netmask", ctypes.c_void_p),
    ("other_end", ctypes.c_void_p),
    ("data", ctypes.c_void_p),
]


def addresses() -> list[Address]:
    """Return all IPv4 and IPv6 addresses in the order of getifaddrs(3), in which gloo and NCCL look for
    theirs. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_IfAddrs)()
    if libc.getifaddrs(ctypes.byref(first)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    try:
        found, entry = [], first
        while entry:  # type: ignore[truthy-bool]  # a null pointer is false
            address = _address(entry.contents)
            if address is not None:
                found.append(address)
            entry = entry.contents.next
        return found
    finally:
        libc.freeifaddrs(first)


def _address(entry: _IfAddrs) -> Address | None:
    if not entry.address:
        return None
    (family,) = struct.unpack("=H", ctypes.string_at(entry.address, 2))
    if family == socket.AF_INET:
        packed, scope = ctypes.string_at(entry.address + 4, 4), 0
    elif family == socket.AF_INET6:
        packed = ctypes.string_at(entry.address + 8, 16)
        (scope,) = struct.unpack("=I", ctypes.string_at(entry.address + 24, 4))
    else:
        return None
    runs = entry.flags & _IFF_UP != 0 and entry.flags & _IFF_RUNNING != 0
    return Address(os.fsdecode(entry.name), family, socket.inet_ntop(family, packed), scope, runs)


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


def chosen(backend: str) -> tuple[str, ...]:
    """Return the interfaces that ``backend`` will use; () where only a name server could tell.

    gloo takes those it is told, else the one with the address of this host's own name.
    """
    names = os.environ.get("NCCL_SOCKET_IFNAME" if backend == "nccl" else "GLOO_SOCKET_IFNAME", "")
    if names and backend == "nccl":
        excluded = names.startswith("^")
        wanted = names.removeprefix("^").split(",")
        return tuple(n for n in _existing() if any(_fits(n, w) for w in wanted) is not excluded)
    if names:
        return tuple(names.split(","))
    return tuple(filter(None, (_interface_with(_address_of(socket.gethostname())),)))


def _address_of(name: str) -> str:
    """What the hosts file says: a name server may be slow to answer, or never."""
    try:
        with open("/etc/hosts", encoding="utf-8", errors="replace") as table:
            rows = (line.partition("#")[0].split() for line in table)
            return next((row[0] for row in rows if name in row[1:]), "")
    except OSError:
        return ""


def _interface_with(address: str) -> str:
    if address.startswith("127.") or address == "::1":
        return "lo"
    try:
        return next((a.interface for a in addresses() if a.ip == address), "")
    except OSError:
        return ""


def _existing() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def _nccl_matches(wanted: str) -> bool:
    return any(_fits(name, wanted) for name in _existing())


def _fits(name: str, wanted: str) -> bool:
    """NCCL takes prefixes; ``=eth0`` is exact."""
    if wanted.startswith("="):
        return name == wanted[1:].partition(":")[0]
    return name.startswith(wanted.partition(":")[0])


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
