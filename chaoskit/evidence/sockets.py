"""The TCP sockets of the ranks, and which rank is at the other side of each.

The kernel's table is read once for each network namespace, not for each rank: 64 connected ranks in one have
4096 lines there. Unix sockets and shared memory are not looked at.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.evidence.family import Report, Scene, Source
from chaoskit.evidence.findings import Socket, Sockets, What

SOCKETS_MAX: Final = 1024
"""So many of one rank are kept."""
_LINES_MAX: Final = 400_000
_MAPPED: Final = bytes(10) + b"\xff\xff"
"""Begins an IPv4 address that is written as one of IPv6."""
_STATES: Final = {
    1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2", 6: "TIME_WAIT",
    7: "CLOSE", 8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING", 12: "NEW_SYN_RECV",
}  # fmt: skip

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of /proc/PID/net/tcp or tcp6."""

    local: Address
    remote: Address
    state: str
    send_queue: int
    receive_queue: int
    inode: int


@dataclass(frozen=True, slots=True)
class SocketSource(Source):
    """The open TCP sockets of a rank: with whom, and how much lies in them that nobody has taken."""

    name: ClassVar[str] = "sockets"
    file: ClassVar[str] = "sockets.json"
    first: ClassVar[bool] = True

    def gather(self, scene: Scene) -> Iterator[tuple[int, Report]]:
        spaces = {slot: _namespace(pid) for slot, pid in scene.pids.items()}
        tables: dict[str, list[Entry]] = {}
        for slot, pid in scene.pids.items():
            if spaces[slot] not in tables and scene.left_s:
                tables[spaces[slot]] = _table(pid)
        inodes: dict[int, set[int]] = {}
        for slot, pid in scene.pids.items():
            try:
                inodes[slot] = _inodes(pid)
            except OSError as error:
                yield slot, Report(missing=(f"sockets: {error.strerror}",))
        owned = own(inodes, spaces, tables)
        for slot, listed in with_peers(owned, spaces, scene.store_port).items():
            yield slot, Report(_limited(listed))


def own(
    inodes: Mapping[int, set[int]], spaces: Mapping[int, str], tables: Mapping[str, list[Entry]]
) -> dict[int, list[Entry]]:
    """Return the entries that belong to each slot."""
    by_space = {space: {e.inode: e for e in table if e.inode} for space, table in tables.items()}
    return {
        slot: [known[i] for i in sorted(wanted) if i in known]
        for slot, wanted in inodes.items()
        for known in (by_space.get(spaces[slot], {}),)
    }


def with_peers(
    owned: Mapping[int, list[Entry]], spaces: Mapping[int, str], store_port: int
) -> dict[int, tuple[Socket, ...]]:
    """Return the sockets of each slot, each with the slot that has the other end of the connection.

    A loopback address means another machine in each network namespace, so these are matched within one.
    """
    ends: dict[tuple[str, Address, Address], int] = {}
    for slot, entries in owned.items():
        for entry in entries:
            ends[_place(entry, spaces[slot]), entry.local, entry.remote] = slot
    found: dict[int, tuple[Socket, ...]] = {}
    for slot, entries in owned.items():
        listed = []
        for entry in entries:
            peer = ends.get((_place(entry, spaces[slot]), entry.remote, entry.local))
            listed.append(_socket(entry, peer, store_port))
        found[slot] = tuple(sorted(listed, key=_order))
    return found


def _place(entry: Entry, space: str) -> str:
    host = entry.local[0]
    return space if host.startswith("127.") or host == "::1" else ""


def _socket(entry: Entry, peer: int | None, store_port: int) -> Socket:
    what: What = "" if peer is None else "peer"
    if store_port and store_port in (entry.local[1], entry.remote[1]):
        what = "store"
    return Socket(
        local=_text(entry.local),
        remote="" if entry.state == "LISTEN" else _text(entry.remote),
        state=entry.state,
        send_queue=entry.send_queue,
        receive_queue=0 if entry.state == "LISTEN" else entry.receive_queue,
        peer=peer,
        what=what,
    )


def _order(one: Socket) -> tuple[bool, int, str, str, str]:
    return one.peer is None, one.peer or 0, one.what, one.local, one.remote


def _limited(listed: tuple[Socket, ...]) -> Sockets:
    return Sockets(listed[:SOCKETS_MAX], max(0, len(listed) - SOCKETS_MAX))


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# ---------------------------------------------------------------- /proc


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return f"of {pid}"  # we may not know: then nobody else is in it


def _inodes(pid: int) -> set[int]:
    """Return the sockets that the process has open. Raises OSError where that may not be seen."""
    folder = f"/proc/{pid}/fd"
    found = set()
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def _table(pid: int) -> list[Entry]:
    found: list[Entry] = []
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{name}", "rb") as file:
                found += parse(file.read())
        except OSError:
            continue  # no IPv6 here, or the process has ended
    return found


def parse(table: bytes) -> list[Entry]:
    """Return the entries of /proc/PID/net/tcp or tcp6; what is no entry is left out."""
    hosts: dict[bytes, str] = defaultdict(str)
    found = []
    for line in table.split(b"\n", _LINES_MAX)[1:_LINES_MAX]:
        fields = line.split(None, 10)
        try:
            waiting = fields[4]
            entry = Entry(
                local=_address(fields[1], hosts),
                remote=_address(fields[2], hosts),
                state=_STATES.get(int(fields[3], 16), "?"),
                send_queue=int(waiting[:8], 16),
                receive_queue=int(waiting[9:17], 16),
                inode=int(fields[9]),
            )
        except (ValueError, LookupError, struct.error):
            continue
        found.append(entry)
    return found


def _address(text: bytes, known: dict[bytes, str]) -> Address:
    host, _, port = text.partition(b":")
    if not known[host]:
        known[host] = _host(host)
    return known[host], int(port, 16)


def _host(text: bytes) -> str:
    """The kernel prints words of 4 bytes, each as a number of its own byte order."""
    raw = bytes.fromhex(text.decode("ascii"))
    if len(raw) not in (4, 16):
        raise ValueError(text)
    words = len(raw) // 4
    packed = struct.pack(f"={words}I", *struct.unpack(f">{words}I", raw))
    if packed.startswith(_MAPPED):
        packed = packed[12:]
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
