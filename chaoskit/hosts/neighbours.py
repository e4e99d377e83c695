"""Tells hosts the link addresses of one another, so that none has to ask: for networks of many hosts.

The kernel's table of neighbours is one for the whole machine, all its namespaces together, and takes 1024 of
those that were asked for; 33 hosts that all talk to one another need more. What is told is not counted there.
Packs its messages itself: 32 hosts need 992, which take pyroute2 a second.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import Final

ASKED_FOR_MAX: Final = 16
"""Up to so many hosts in an arm ask. They then also notice when a neighbour does not answer, as hosts of one
switch do: a connection that is being made fails after 3 s with EHOSTUNREACH."""

_NEW_NEIGHBOUR: Final = 28
_REQUEST, _REPLACE, _CREATE = 0x001, 0x100, 0x400
_ERROR: Final = 2
_PERMANENT: Final = 0x80
_DESTINATION, _LINK_ADDRESS = 1, 2
_HEADER: Final = struct.Struct("=IHHII")
_NEIGHBOUR: Final = struct.Struct("=BxxxiHBB")
_ATTRIBUTE: Final = struct.Struct("=HH")
_BATCH_BYTES: Final = 16384

Neighbour = tuple[int, str, bytes]
"""The index of the interface it is behind, its IP address and its link address."""


def link_address(number: int) -> bytes:
    """Return a link address (locally administered) for the interface with that number."""
    return b"\x02\x77" + number.to_bytes(4, "big")


def tell(neighbours: Iterable[Neighbour]) -> None:
    """Tell the network that this process is in of its neighbours. Raises OSError where the kernel refuses."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as kernel:
        kernel.bind((0, 0))
        batch = b""
        for neighbour in neighbours:
            batch += _message(neighbour)
            if len(batch) >= _BATCH_BYTES:
                kernel.send(batch)
                batch = b""
        if batch:
            kernel.send(batch)
        kernel.setblocking(False)
        try:
            said = kernel.recv(_BATCH_BYTES)
        except BlockingIOError:  # it speaks of errors only
            return
    _, kind, _, _, _ = _HEADER.unpack_from(said)
    number = -struct.unpack_from("=i", said, _HEADER.size)[0] if kind == _ERROR else 0
    raise OSError(number, "a neighbour cannot be told")


def _message(neighbour: Neighbour) -> bytes:
    index, ip, link = neighbour
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    body = _NEIGHBOUR.pack(family, index, _PERMANENT, 0, 0)
    body += _attribute(_DESTINATION, socket.inet_pton(family, ip)) + _attribute(_LINK_ADDRESS, link)
    return _HEADER.pack(_HEADER.size + len(body), _NEW_NEIGHBOUR, _REQUEST | _REPLACE | _CREATE, 0, 0) + body


def _attribute(kind: int, data: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(data), kind) + data + b"\0" * (-len(data) % 4)
