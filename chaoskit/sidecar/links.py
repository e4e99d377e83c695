"""Connections between keepers: small framed messages over TCP, without blocking the keeper's loop.

Rank 0's keeper listens (:class:`Listener`); each other one has one connection to it (:class:`Peer`). May not
judge what a message or its absence means.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from chaoskit.sidecar.keeper import Keeper

Kind = Literal["hello", "beat", "stopped", "continued", "ended", "lost", "end", "gone", "bye"]
VERSION = 3
_LENGTH = struct.Struct("!I")
_MAX_BYTES = 65536
_MAX_FIRST_BYTES = 4096
"""Of a message from whom has not shown the token yet."""
_FLUSH_S = 0.3


@dataclass(frozen=True, slots=True)
class Place:
    """Which process a keeper is."""

    host: str = ""
    namespace: str = ""
    pid: int = 0
    """0: it is gone, or will not leave soon (stopped, on a host that does not answer)."""

    def sees(self, other: Place) -> bool:
        """Can a keeper here look at that process? Containers may share a host's name and not its pids."""
        return bool(self.namespace) and (self.host, self.namespace) == (other.host, other.namespace)


@dataclass(frozen=True, slots=True)
class Message:
    """What one keeper tells another. ``rank`` is the one it is about, ``host`` where that runs.

    The keeper of a rank tells ``hello`` and ``beat``, what becomes of the rank (``stopped``, ``continued``,
    ``ended``, ``lost``), and ``bye`` right before it leaves: its connection closes only as its process ends.
    Rank 0's keeper tells all to ``end`` because of ``rank``. ``gone``: the launcher has noticed the end of
    that rank's keeper; told by who sees it, and passed on to all.
    """

    kind: Kind
    rank: int
    host: str = ""
    exit_code: int = 0
    work_done: bool = False
    told: bool = False
    why: str = ""
    pid: int = 0  # of the keeper that sends it; in ``end``, that and the next of the lost rank's
    namespace: str = ""
    token: str = ""
    version: int = VERSION

    @property
    def place(self) -> Place:
        return Place(self.host, self.namespace, self.pid)

    def to_bytes(self, token: str) -> bytes:
        body = json.dumps({**asdict(self), "token": token}).encode()
        return _LENGTH.pack(len(body)) + body

    @classmethod
    def from_bytes(cls, body: bytes) -> Message:
        """Raises ValueError where it is none of this version."""
        try:
            message = cls(**json.loads(body))
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no message: {error}") from error
        for field in fields(cls):
            if type(getattr(message, field.name)) is not type(_EXAMPLE[field.name]):
                raise ValueError(f"{field.name} is of another type")
        if message.kind not in get_args(Kind):
            raise ValueError("no such kind of message")
        if message.version != VERSION:
            raise ValueError(f"version {message.version} of the protocol, this is {VERSION}")
        return message


_EXAMPLE = asdict(Message("bye", 0))


class Peer:
    """One connection. ``on_message`` gets what comes with the right token; ``on_close`` is called once when
    the connection is over, in whatever way, unless it was closed here."""

    def __init__(
        self,
        keeper: Keeper,
        connection: socket.socket,
        token: str,
        on_message: Callable[[Peer, Message], None],
        on_close: Callable[[Peer], None],
    ) -> None:
        self.rank = -1
        self.place = Place()
        self.is_leaving = False
        """It has said so: an end of the connection is no loss."""
        self.is_known = False
        """It has shown the token."""
        self.heard_at = time.monotonic()
        self.stopped_at: float | None = None
        """Since when its process is seen to be stopped."""
        self.open = True
        self._keeper = keeper
        self._socket = connection
        self._token = token
        self._on_message = on_message
        self._on_close = on_close
        self._received = b""
        self._unsent = b""
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._watch()

    def send(self, message: Message) -> None:
        """Send it as soon as it goes. Never blocks, never raises."""
        if self.open:
            self._unsent += message.to_bytes(self._token)
            self._flush()

    def flush(self) -> None:
        """Send what is unsent, for at most 0.3 s. The last thing that is done with it."""
        if self.open:
            with contextlib.suppress(OSError):
                self._socket.settimeout(_FLUSH_S)
                self._socket.sendall(self._unsent)

    def close(self) -> None:
        """Hang up."""
        if self.open:
            self._drop()

    def _watch(self) -> None:
        writing = selectors.EVENT_WRITE if self._unsent else 0
        self._keeper.watch(self._socket, selectors.EVENT_READ | writing, self._ready)

    def _ready(self, events: int) -> None:
        if events & selectors.EVENT_READ:
            self._receive()
        if events & selectors.EVENT_WRITE and self.open:
            self._flush()

    def _flush(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._lost()
            return
        self._watch()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_MAX_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._received += data
        self._take_messages()
        if not data:
            self._lost()

    def _take_messages(self) -> None:
        while self.open and len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            if length > (_MAX_BYTES if self.is_known else _MAX_FIRST_BYTES):
                self._lost()
                return
            body = self._received[_LENGTH.size : _LENGTH.size + length]
            if len(body) < length:
                return
            self._received = self._received[_LENGTH.size + length :]
            self._take(body)

    def _take(self, body: bytes) -> None:
        try:
            message = Message.from_bytes(body)
        except ValueError:
            self._lost()
            return
        if not hmac.compare_digest(message.token.encode(errors="replace"), self._token.encode()):
            self._lost()
            return
        self.is_known = True
        self.heard_at = time.monotonic()
        self._on_message(self, message)

    def _lost(self) -> None:
        if self.open:
            self._drop()
            self._on_close(self)

    def _drop(self) -> None:
        self.open = False
        self._keeper.forget(self._socket)
        self._socket.close()


@dataclass(frozen=True, slots=True)
class Address:
    """Where rank 0's keeper listens: any of the hosts, and the word that lets one in."""

    hosts: tuple[str, ...]
    port: int
    token: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Address:
        given = json.loads(text)
        return cls(tuple(given["hosts"]), int(given["port"]), str(given["token"]))


class Listener:
    """Rank 0's side. Made before the fork, so that both the keeper and the rank know the address."""

    def __init__(self, this_host_only: bool) -> None:
        self.token = os.urandom(16).hex()
        self.socket = (
            socket.create_server(("127.0.0.1", 0), backlog=1024)
            if this_host_only
            else _server_for_all_interfaces()
        )
        hosts = ("127.0.0.1",) if this_host_only else (socket.gethostname(), *_own_addresses())
        self.address = Address(hosts, self.socket.getsockname()[1], self.token)

    def close(self) -> None:
        self.socket.close()


def _server_for_all_interfaces() -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return socket.create_server(("", 0), backlog=1024)


def _own_addresses() -> list[str]:
    """The address from which this host would reach others. Sends nothing."""
    found = []
    for family, probe in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((probe, 9))
            found.append(str(sock.getsockname()[0]))
    return found
