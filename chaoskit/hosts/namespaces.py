"""Makes and enters namespaces, those of virtual hosts too, through ctypes: Python 3.11 has no names for these
calls.

Standard library only, as ranks are forked from the process that calls it. Needs a single thread.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from dataclasses import dataclass
from typing import Final

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUTS: Final = 0x04000000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_PRIVATE: Final = 0x40000
_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1
_IFREQ: Final = struct.Struct("16sh14x8x")
_HOSTS_FILE: Final = "/etc/hosts"

_libc: Final = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def own_user_namespace() -> None:
    """Enter a new user namespace in which user and group keep their numbers."""
    uid, gid = os.geteuid(), os.getegid()
    _checked(_libc.unshare(_CLONE_NEWUSER), "unshare(CLONE_NEWUSER)")
    _map_to_itself(uid, gid)


def own_network_namespace() -> None:
    """Enter a new network namespace with ``lo`` up. Raises OSError, having changed nothing, where it may not.

    Without the privilege for it, a user namespace is made with it in one call, so that a refusal
    of either leaves this process as it was.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        _checked(_libc.unshare(_CLONE_NEWNET), "unshare(CLONE_NEWNET)")
    except PermissionError:
        _checked(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET), "unshare(CLONE_NEWUSER | CLONE_NEWNET)")
        _map_to_itself(uid, gid)
    _bring_loopback_up()


def _map_to_itself(uid: int, gid: int) -> None:
    for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{file}", "w", encoding="ascii") as out:
            out.write(text)


def _bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = fcntl.ioctl(sock, _SIOCGIFFLAGS, _IFREQ.pack(b"lo", 0))
        flags = _IFREQ.unpack(request)[1]
        fcntl.ioctl(sock, _SIOCSIFFLAGS, _IFREQ.pack(b"lo", flags | _IFF_UP))


def new_network() -> int:
    """Enter a new network with ``lo`` up, as own_network_namespace() does; return a descriptor of it."""
    own_network_namespace()
    return current_network()


def current_network() -> int:
    """Return a descriptor of the network this process is in."""
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter_network(fd: int) -> None:
    """Enter the network behind ``fd``. Sockets that exist stay where they were made."""
    _checked(_libc.setns(fd, _CLONE_NEWNET), "setns(CLONE_NEWNET)")


def network_of(pid: int) -> int:
    """Return the number of the network that ``pid`` is in; 0 where it is gone."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0


@dataclass(frozen=True, slots=True)
class Doorway:
    """How a process gets onto a host: the descriptor of its network, its name, its hosts file."""

    network: int
    name: str
    hosts_file: str

    def enter(self) -> None:
        """Be on that host from now on, with all that this process will start."""
        enter_network(self.network)
        _checked(_libc.unshare(_CLONE_NEWUTS | _CLONE_NEWNS), "unshare(CLONE_NEWUTS | CLONE_NEWNS)")
        socket.sethostname(self.name)
        _mount(None, "/", _MS_REC | _MS_PRIVATE)
        _mount(self.hosts_file, _HOSTS_FILE, _MS_BIND)


def _mount(source: str | None, target: str, flags: int) -> None:
    given = None if source is None else source.encode()
    _checked(_libc.mount(given, target.encode(), None, ctypes.c_ulong(flags), None), f"mount({target})")
