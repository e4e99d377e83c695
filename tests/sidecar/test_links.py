"""What a stranger may send to a keeper's port, and what that does: it is hung up on, and nothing else."""

from __future__ import annotations

import json
import selectors
import socket
import struct
from typing import cast

import pytest

from chaoskit.sidecar.keeper import Keeper, OnReady
from chaoskit.sidecar.links import Message, Peer, Place

TOKEN = "t" * 32
HELLO = {"kind": "hello", "rank": 1, "token": TOKEN}
WRONG_TOKENS = (5, "\u00e9", "\ud800", None, "x", [], "")
WRONG_FIELDS: tuple[dict[str, object], ...] = (
    *({"rank": rank} for rank in ("1", True, 1.5)), {"kind": []}, {"kind": "no"}, {"version": 1}, {"no": 1},
)  # fmt: skip


class Watching:
    """The part of a keeper that a connection needs."""

    def watch(self, file: object, events: int, ready: OnReady) -> None:
        self.ready = ready

    def forget(self, file: object) -> None:
        pass


class Line:
    """One connection: what is sent into it is received at once."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.closed = 0
        here, self.other = socket.socketpair()
        self._keeper = Watching()
        self.peer = Peer(cast(Keeper, self._keeper), here, TOKEN, self._heard, self._gone)

    def send(self, body: bytes) -> None:
        self.other.sendall(struct.pack("!I", len(body)) + body)
        self._keeper.ready(selectors.EVENT_READ)

    def _heard(self, peer: Peer, message: Message) -> None:
        self.messages.append(message)

    def _gone(self, peer: Peer) -> None:
        self.closed += 1


@pytest.mark.parametrize(
    "body",
    [
        *(json.dumps({**HELLO, "token": token}).encode() for token in WRONG_TOKENS),
        *(json.dumps({**HELLO, **wrong}).encode() for wrong in WRONG_FIELDS),
        b"[" * 4000, b"1e999", b"null", b"[1,2]", b'"ab"', b"9" * 4000, b"{", b"", b"\xff\xfe",
    ],
)  # fmt: skip
def test_what_is_no_message_with_the_token_is_hung_up_on(body: bytes) -> None:
    line = Line()
    line.send(body)
    assert (line.peer.open, line.closed, line.messages) == (False, 1, [])


def test_a_stranger_may_not_send_much() -> None:
    line = Line()
    line.send(b" " * 4097)
    assert not line.peer.open


def test_who_has_shown_the_token_may_send_more() -> None:
    line = Line()
    line.send(json.dumps(HELLO).encode())
    line.send(json.dumps({**HELLO, "kind": "lost", "why": "w" * 5000}).encode())
    line.send(b"[" * 60000)
    assert [message.kind for message in line.messages] == ["hello", "lost"]
    assert line.closed == 1


def test_a_message_arrives_as_it_was_sent() -> None:
    sent = Message("lost", 3, "h\u00f6st", -9, True, True, "is no more", 17, "here")
    line = Line()
    line.other.sendall(sent.to_bytes(TOKEN))
    line._keeper.ready(selectors.EVENT_READ)
    (got,) = line.messages
    assert got == Message(**json.loads(sent.to_bytes(TOKEN)[4:]))
    assert (got.rank, got.host, got.why) == (3, "h\u00f6st", "is no more")
    assert got.place == Place("h\u00f6st", "here", 17)
