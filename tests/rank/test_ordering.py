"""A fault's order goes to the switch, and comes back as done or as an error in words."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from chaoskit import codec
from chaoskit.network import Order
from chaoskit.rank.ordering import orderer

pytestmark = pytest.mark.timeout(300)


def answering(answer: bytes) -> tuple[socket.socket, list[Order], threading.Thread]:
    """A switch that answers one order; returns the rank's end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    heard: list[Order] = []

    def serve() -> None:
        heard.append(codec.decode(Order, json.loads(theirs.recv(65536))))
        if answer:
            theirs.send(answer)
        theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return ours, heard, thread


@pytest.fixture
def said() -> list[str]:
    """What is chaoskit's own fault."""
    return []


def test_an_order_is_carried_out_before_it_returns(said: list[str]) -> None:
    ours, heard, thread = answering(b'{"error": ""}')
    what = Order("partition", hosts=("hostA", "hostB"), for_s=0.5)
    orderer(ours.fileno(), said.append)(what)
    thread.join()
    assert heard == [what]
    ours.close()


def test_what_never_ends_travels_too(said: list[str]) -> None:
    ours, heard, thread = answering(b'{"error": ""}')
    orderer(ours.fileno(), said.append)(Order("port", "hostA"))
    thread.join()
    assert heard[0].for_s == float("inf")
    ours.close()


def test_a_refusal_is_raised_with_its_reason(said: list[str]) -> None:
    ours, _, thread = answering(b'{"error": "hostZ has no interface"}')
    with pytest.raises(RuntimeError, match=r"did not obey 'port': hostZ has no interface"):
        orderer(ours.fileno(), said.append)(Order("port", "hostZ"))
    assert said == ["the network did not obey 'port': hostZ has no interface"]
    thread.join()
    ours.close()


def test_a_switch_that_is_gone_is_said(said: list[str]) -> None:
    ours, _, thread = answering(b"")
    with pytest.raises(RuntimeError, match="the switch of the virtual hosts is gone"):
        orderer(ours.fileno(), said.append)(Order("port", "hostA"))
    assert not said, "its parent tells that"
    thread.join()
    ours.close()


def test_without_virtual_hosts_there_is_nothing_to_order(said: list[str]) -> None:
    with pytest.raises(RuntimeError, match=r"needs virtual hosts: set topology\.hosts"):
        orderer(-1, said.append)(Order("port", "hostA"))
