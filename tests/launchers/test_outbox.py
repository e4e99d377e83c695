"""The warden's end: a plain Connection reads it, and a runner that does not read blocks nothing."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest
from multiprocess.connection import Connection

from chaoskit import history
from chaoskit.history import Leftover, Started
from chaoskit.launchers.outbox import END, Outbox


@pytest.fixture
def ends() -> Iterator[tuple[Outbox, Connection]]:
    ours, theirs = socket.socketpair()
    outbox = Outbox(ours.detach())
    with Connection(theirs.detach()) as connection:
        yield outbox, connection
    outbox.close()


def test_events_arrive_as_messages(ends: tuple[Outbox, Connection]) -> None:
    outbox, connection = ends
    sent = [Started(1.5, 0, 42), Leftover(2.5, -1, 43, "x" * 40_000)]
    for event in sent:
        outbox.send(event)
    assert [history.from_line(connection.recv_bytes().decode()) for _ in sent] == sent


def test_a_runner_that_does_not_read_blocks_nothing_and_loses_nothing(
    ends: tuple[Outbox, Connection],
) -> None:
    outbox, connection = ends
    sent = 0
    while not outbox.pending or sent < 2000:
        outbox.send(Leftover(float(sent), -1, sent, "x" * 500))
        sent += 1
    for number in range(sent):
        outbox.flush()
        assert history.from_line(connection.recv_bytes().decode()).t_s == number
    assert not outbox.pending


def test_the_order_to_end(ends: tuple[Outbox, Connection]) -> None:
    outbox, connection = ends
    assert not outbox.told_to_end()
    connection.send_bytes(END)
    assert select.select([outbox], [], [], 10)[0]
    assert outbox.told_to_end()
    assert not outbox.gone


def test_a_runner_that_is_gone(ends: tuple[Outbox, Connection]) -> None:
    outbox, connection = ends
    connection.close()
    outbox.send(Started(1.0, 0, 1))
    outbox.send(Started(1.0, 0, 1))
    assert not outbox.told_to_end()
    assert outbox.gone
    outbox.deliver()  # returns
