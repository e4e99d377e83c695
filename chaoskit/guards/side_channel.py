"""A connection from every rank to rank 0, on which ranks say what they entered and hear what does not agree.

Sockets and threads of plain Python beside the job's own groups and store: whatever those wait for, this
goes on, and at the end of the interpreter no C++ frame is left waiting. May not decide what agrees: a
Comparison or an Agreement does.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from chaoskit.guards.comparison import Dispute, Entered, GroupKey

Message = list[Any]
"""One line of JSON, its kind first: ``enter``, ``ask``, ``leave``, ``bye`` to the collector; ``agreed``,
``clean``, ``mismatch`` from it."""


class Compares(Protocol):
    """What the collector asks."""

    def enter(self, rank: int, group: GroupKey, index: int, entered: Entered) -> None:
        """``rank`` says this, as its number ``index`` (from 1) in ``group``."""

    def leave(self, rank: int, group: GroupKey, count: int) -> None:
        """``rank`` says nothing more in ``group``."""

    def gone(self, rank: int) -> None:
        """``rank`` vanished without leaving."""

    def agreed(self, group: GroupKey) -> int:
        """Up to which number everything in ``group`` has been compared."""

    def dispute(self) -> Dispute | None:
        """The first difference; None where there is none."""

    def describe(self, dispute: Dispute) -> str:
        """Who differs, in one line."""

    def odd(self, dispute: Dispute) -> tuple[int, ...]:
        """The ranks that are wrong beyond doubt."""


_TICK_S = 0.02
_MOST_WAITING = 200_000


@dataclass(slots=True)
class _Peer:
    """One rank as the collector sees it."""

    connection: socket.socket
    rank: int = -1
    received: bytes = b""
    asked: list[tuple[GroupKey, int]] = field(default_factory=list)
    counts: dict[GroupKey, int] | None = None  # what it entered in all, once it has left
    left_at: float = 0.0
    clean: bool = False


class Collector(threading.Thread):
    """Lives in rank 0. Compares what the ranks say; tells all of them of the first mismatch."""

    def __init__(self, guard: str, settle_s: float, compares: Compares) -> None:
        super().__init__(name=f"chaoskit {guard} collector", daemon=True)
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        self._server = socket.create_server(("", 0), family=family, dualstack_ipv6=dual, backlog=1024)
        self._server.setblocking(False)
        self.token = secrets.token_hex(16)
        self._settle_s = settle_s
        self._comparison = compares
        self._peers: dict[int, _Peer] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._disputed_at = 0.0
        self.idle = threading.Event()
        """Set when every rank that ever connected has left with all compared, or is gone."""

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select(_TICK_S if self._disputed_at or self._leaving() else 0.5):
                if key.fileobj is self._server:
                    self._accept()
                else:
                    self._read(self._peers[key.fd])
            if self._find_dispute():
                return
            self._answer()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._server.accept()
            connection.settimeout(1.0)
            self._peers[connection.fileno()] = _Peer(connection)
            self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, peer: _Peer) -> None:
        try:
            chunk = peer.connection.recv(1 << 16)
        except OSError:
            chunk = b""
        *lines, peer.received = (peer.received + chunk).split(b"\n")
        try:
            for line in lines:
                self._take(peer, json.loads(line))
        except (ValueError, TypeError, IndexError, PermissionError):
            chunk = b""  # not one of ours
        if not chunk:
            self._drop(peer)

    def _take(self, peer: _Peer, message: Message) -> None:
        kind, *rest = message
        if peer.rank < 0:
            if kind != "hello" or not secrets.compare_digest(str(rest[0]), self.token):
                raise PermissionError
            peer.rank = int(rest[1])
            return
        if kind == "enter":
            name, members, index, *entered = rest
            self._comparison.enter(peer.rank, (name, tuple(members)), index, Entered(*entered))
        elif kind == "ask":
            name, members, index = rest
            peer.asked.append(((name, tuple(members)), index))
        elif kind == "leave":
            peer.counts = {(name, tuple(members)): count for name, members, count in rest[0]}
            peer.left_at = time.monotonic()
            for group, count in peer.counts.items():
                self._comparison.leave(peer.rank, group, count)

    def _drop(self, peer: _Peer) -> None:
        self._peers.pop(peer.connection.fileno(), None)
        self._selector.unregister(peer.connection)
        peer.connection.close()
        if peer.rank >= 0 and peer.counts is None:
            self._comparison.gone(peer.rank)

    def _find_dispute(self) -> bool:
        dispute = self._comparison.dispute()
        if dispute is None:
            return False
        now = time.monotonic()
        self._disputed_at = self._disputed_at or now
        if not dispute.complete and now < self._disputed_at + self._settle_s:
            return False
        text, odd = self._comparison.describe(dispute), self._comparison.odd(dispute)
        for peer in self._peers.values():
            self._send(peer, ["mismatch", text, peer.rank in odd])
        return True

    def _answer(self) -> None:
        for peer in list(self._peers.values()):
            for question in list(peer.asked):
                group, index = question
                if self._comparison.agreed(group) >= index:
                    peer.asked.remove(question)
                    self._send(peer, ["agreed", *group, index])
            if peer.counts is not None and not peer.clean:
                peer.clean = self._may_go(peer, peer.counts)
                if peer.clean:
                    self._send(peer, ["clean"])
        if all(peer.clean for peer in self._peers.values()):
            self.idle.set()
        else:
            self.idle.clear()

    def _leaving(self) -> bool:
        return any(peer.counts is not None and not peer.clean for peer in self._peers.values())

    def _may_go(self, peer: _Peer, counts: dict[GroupKey, int]) -> bool:
        """All that ``peer`` said has been compared, and nobody is about to say more than it did.

        A rank that skipped something comes to its end early: it would go as if nothing were wrong. So the
        others are waited for, but not for long: one that saves for an hour is no reason to stay.
        """
        if any(self._comparison.agreed(group) < count for group, count in counts.items()):
            return False
        everyone = all(other.counts is not None for other in self._peers.values())
        return everyone or time.monotonic() >= peer.left_at + self._settle_s

    def _send(self, peer: _Peer, message: Message) -> None:
        with contextlib.suppress(OSError):  # it is gone, or stopped: its end of the job is not ours to report
            peer.connection.sendall(_line(message))


class Reporter(threading.Thread):
    """Lives in every rank. Sends what the rank enters, and listens."""

    def __init__(self, guard: str, address: tuple[str, int], token: str, rank: int, connect_s: float) -> None:
        super().__init__(name=f"chaoskit {guard}", daemon=True)
        self._connection = socket.create_connection(address, timeout=connect_s)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.settimeout(5.0)
        self._connection.sendall(_line(["hello", token, rank]))
        self._wake_r, self._wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._waiting: deque[Message] = deque()
        self._received = b""
        self._questions: dict[tuple[GroupKey, int], threading.Event] = {}
        self.clean = threading.Event()
        self.is_odd = False  # this rank is the one that is wrong
        self.mismatch = ""
        self.over = threading.Event()
        """Set when there is a mismatch, or the connection is gone."""

    def say(self, message: Message, *, now: bool = False) -> None:
        """Send ``message`` with the next tick, or at once. From any thread; never blocks."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(message)
        if now:
            with contextlib.suppress(OSError):
                os.write(self._wake_w, b".")

    def wait_agreed(self, group: GroupKey, index: int, seconds: float) -> bool:
        """Wait until all members of ``group`` are known to have entered operation ``index`` alike."""
        agreed = self._questions[group, index] = threading.Event()
        self.say(["ask", *group, index], now=True)
        found = agreed.wait(seconds)
        self._questions.pop((group, index), None)
        return found

    def run(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._connection, selectors.EVENT_READ)
                selector.register(self._wake_r, selectors.EVENT_READ)
                while not self.mismatch:
                    for key, _ in selector.select(_TICK_S):
                        if key.fileobj is self._connection:
                            self._read()
                        else:
                            os.read(self._wake_r, 4096)
                    self._send_waiting()
        except OSError:
            pass
        self.over.set()
        for question in list(self._questions.values()):
            question.set()

    def _send_waiting(self) -> None:
        lines = []
        while self._waiting:
            lines.append(_line(self._waiting.popleft()))
        if lines:
            self._connection.sendall(b"".join(lines))

    def _read(self) -> None:
        chunk = self._connection.recv(1 << 16)
        if not chunk:
            raise ConnectionResetError
        *lines, self._received = (self._received + chunk).split(b"\n")
        for kind, *rest in map(json.loads, lines):
            if kind == "mismatch":
                text, self.is_odd = rest
                self.mismatch = text
            elif kind == "clean":
                self.clean.set()
            elif kind == "agreed":
                name, members, index = rest
                if question := self._questions.get(((name, tuple(members)), index)):
                    question.set()


def _line(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
