"""Sockets of the check of interfaces: answers whoever connects, and tries to connect to many at once.

Knows neither ranks' roles nor the store. Says how each attempt ended; decides nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from chaoskit.guards.nic_card import Why

TOKEN_BYTES: Final = 16
_HELLO: Final = struct.Struct("!8sI")
_KNOCKS, _SENDS = b"chaosnic", b"chaosrat"
_BACKLOG = 1024
_AT_ONCE = 400
"""Connections under way; each rank has as many descriptors again for those that come."""
_AGAIN_S = (0.25, 0.5)
"""Pauses before whoever refuses is asked again; then it is believed."""
_UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}


class Responder(threading.Thread):
    """Listens on addresses of this host, and answers every connection with ``token``."""

    def __init__(self, token: bytes) -> None:
        super().__init__(name="chaoskit nic_check answers", daemon=True)
        self._token = token
        self._selector = selectors.DefaultSelector()
        self._one_at_a_time = threading.Lock()
        self._heard: set[int] = set()
        self._wake_r, self._wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._wake_r, selectors.EVENT_READ)
        self._open: set[socket.socket] = set()
        self._closing = False
        self.broken: OSError | None = None
        """Why it cannot answer any more: this process has no descriptor left."""
        self.senders: queue.SimpleQueue[tuple[int, socket.socket]] = queue.SimpleQueue()
        """Connections (with the rank) on which somebody is going to send, to measure the rate."""

    def listen(self, family: int, ip: str, scope: int = 0) -> int:
        """Listen on this address, before the thread starts; return the port. Raises OSError."""
        listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.bind((ip, 0, 0, scope) if family == socket.AF_INET6 else (ip, 0))
        listener.listen(_BACKLOG)
        self._selector.register(listener, selectors.EVENT_READ, data="listener")
        self._open.add(listener)
        return int(listener.getsockname()[1])

    def run(self) -> None:
        while not self._closing:
            self._selector.select()
            self._serve()

    def heard(self) -> set[int]:
        """Return the ranks that have reached this process, those included whose words have not been read yet
        because this thread got no turn."""
        self._serve()
        return set(self._heard)

    def close(self) -> None:
        self._closing = True
        os.write(self._wake_w, b".")
        if self.is_alive():
            self.join()
        for connection in self._open:
            connection.close()
        self._selector.close()
        os.close(self._wake_r)
        os.close(self._wake_w)

    def _serve(self) -> None:
        with self._one_at_a_time:
            while ready := [key for key, _ in self._selector.select(0) if key.fileobj != self._wake_r]:
                for key in ready:
                    assert isinstance(key.fileobj, socket.socket)
                    if key.data == "listener":
                        self._accept(key.fileobj)
                    else:
                        self._hear(key.fileobj)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:
                self.broken = error
                self._selector.unregister(listener)
                return
            connection.setblocking(False)
            self._open.add(connection)
            self._selector.register(connection, selectors.EVENT_READ)
            with contextlib.suppress(OSError):  # it went away again, which is heard next
                connection.send(self._token)

    def _hear(self, connection: socket.socket) -> None:
        try:
            said = connection.recv(_HELLO.size)
        except OSError:
            said = b""
        word, rank = _HELLO.unpack(said) if len(said) == _HELLO.size else (b"", -1)
        if word == _KNOCKS:
            self._heard.add(rank)
            return
        self._selector.unregister(connection)
        self._open.discard(connection)
        if word == _SENDS:
            self.senders.put((rank, connection))
        else:
            connection.close()


@dataclass(frozen=True, slots=True)
class Target:
    """Where to knock, and what has to answer there."""

    family: int
    ip: str
    port: int
    scope: int
    token: bytes

    @property
    def where(self) -> tuple[object, ...]:
        return (self.ip, self.port, 0, self.scope) if self.family == socket.AF_INET6 else (self.ip, self.port)


@dataclass(frozen=True, slots=True)
class Reply:
    """How an attempt ended: '' is well."""

    why: Why | None = None
    detail: str = ""


class _Knock:
    """One attempt, over as many sockets as it takes."""

    def __init__(self, number: int, target: Target) -> None:
        self.number = number
        self.target = target
        self.again_at = 0.0
        self.tried = 0
        self.heard = b""
        self.connected = False
        self.last: Reply | None = None
        self.socket: socket.socket | None = None


def knock(rank: int, targets: Sequence[Target], within_s: float) -> list[Reply]:
    """Connect to all ``targets`` side by side, as ``rank``; return how each ended, in their order.

    One that is refused is asked again a little later; one that cannot be reached until the time is over, as a
    link may come back."""
    with contextlib.closing(_Knocking(rank, targets, within_s)) as knocking:
        return knocking.replies()


class _Knocking:
    def __init__(self, rank: int, targets: Sequence[Target], within_s: float) -> None:
        self._hello = _HELLO.pack(_KNOCKS, rank)
        self._until = time.monotonic() + within_s
        self._selector = selectors.DefaultSelector()
        self._waiting = deque(_Knock(n, target) for n, target in enumerate(targets))
        self._paused: list[_Knock] = []
        self._under_way: set[_Knock] = set()
        self._replies: dict[int, Reply] = {}
        self._count = len(targets)

    def replies(self) -> list[Reply]:
        while len(self._replies) < self._count and time.monotonic() < self._until:
            self._begin_more()
            self._look(self._pause_s())
        self._look(0.0)  # this process may have had no turn for a long time: what has come counts
        for one in (*self._under_way, *self._paused):
            self._replies.setdefault(one.number, _unfinished(one))
        return [self._replies.get(n, Reply()) for n in range(self._count)]  # never begun: nothing is known

    def close(self) -> None:
        for one in self._under_way:
            if one.socket is not None:
                one.socket.close()
        self._selector.close()

    def _pause_s(self) -> float:
        now = time.monotonic()
        return max(0.0, min([self._until, *(one.again_at for one in self._paused)]) - now)

    def _begin_more(self) -> None:
        now = time.monotonic()
        for one in [one for one in self._paused if one.again_at <= now]:
            self._paused.remove(one)
            self._waiting.append(one)
        while self._waiting and len(self._under_way) < _AT_ONCE:
            self._begin(self._waiting.popleft())

    def _begin(self, one: _Knock) -> None:
        one.tried += 1
        one.heard, one.connected = b"", False
        one.socket = socket.socket(one.target.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._under_way.add(one)
        error = one.socket.connect_ex(one.target.where)
        if error in (0, errno.EINPROGRESS):
            self._selector.register(one.socket, selectors.EVENT_WRITE, one)
        else:
            self._failed(one, error)

    def _look(self, pause_s: float) -> None:
        for key, _ in self._selector.select(pause_s):
            one: _Knock = key.data
            assert one.socket is not None
            if one.connected:
                self._read(one, one.socket)
            else:
                self._connected(one, one.socket)

    def _connected(self, one: _Knock, opened: socket.socket) -> None:
        error = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._failed(one, error)
            return
        one.connected = True
        try:
            opened.send(self._hello)
        except OSError as failed:
            self._failed(one, failed.errno or 0)
            return
        self._selector.modify(opened, selectors.EVENT_READ, one)
        self._read(one, opened)  # the answer is often there already

    def _read(self, one: _Knock, opened: socket.socket) -> None:
        try:
            said = opened.recv(TOKEN_BYTES - len(one.heard))
        except BlockingIOError:
            return
        except OSError as failed:
            self._failed(one, failed.errno or 0)
            return
        one.heard += said
        if not said:
            self._failed(one, 0)
        elif len(one.heard) == TOKEN_BYTES:
            ours = one.heard == one.target.token
            self._end(one, Reply() if ours else Reply("other", one.heard.hex()))

    def _failed(self, one: _Knock, error: int) -> None:
        """Let it be tried again, or not."""
        if one.connected:
            one.last = Reply("other", one.heard.hex()) if one.heard else Reply("closed")
        elif error == errno.ECONNREFUSED:
            one.last = Reply("refused")
        elif error == errno.ETIMEDOUT:
            one.last = Reply("no answer")
        else:
            one.last = Reply("unreachable", os.strerror(error))
        if error not in _UNREACHABLE and one.tried > len(_AGAIN_S):
            self._end(one, one.last)
            return
        self._let_go(one)
        one.again_at = time.monotonic() + _AGAIN_S[min(one.tried, len(_AGAIN_S)) - 1]
        self._paused.append(one)

    def _end(self, one: _Knock, reply: Reply) -> None:
        self._let_go(one)
        self._replies[one.number] = reply

    def _let_go(self, one: _Knock) -> None:
        assert one.socket is not None
        with contextlib.suppress(KeyError):  # refused at once, never registered
            self._selector.unregister(one.socket)
        one.socket.close()
        self._under_way.discard(one)


def _unfinished(one: _Knock) -> Reply:
    """The time is over."""
    if one.socket is not None and one.connected and one.socket.fileno() >= 0:
        return Reply("silent")
    return one.last or Reply("no answer")


def open_for_sending(rank: int, target: Target, within_s: float) -> socket.socket:
    """Return a connection to ``target`` on which to send. Raises OSError."""
    connection = socket.socket(target.family, socket.SOCK_STREAM)
    # What has not been sent when it is closed is of no use: a slow link would need seconds for it.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    try:
        connection.settimeout(within_s)
        connection.connect(target.where)
        connection.sendall(_HELLO.pack(_SENDS, rank))
        answer = b""
        while len(answer) < TOKEN_BYTES and (more := connection.recv(TOKEN_BYTES - len(answer))):
            answer += more
        if answer != target.token:
            raise ConnectionError("somebody else answers")
    except OSError:
        connection.close()
        raise
    return connection


def listen_on(responder: Responder, places: Iterable[tuple[int, str, int]]) -> list[int]:
    """Listen on all ``places`` (family, address, scope); 0 stands for where that is not possible."""
    ports = []
    for family, ip, scope in places:
        try:
            ports.append(responder.listen(family, ip, scope))
        except OSError:
            ports.append(0)
    return ports
