"""What is told comes out as it was told, in pieces too; what is none is refused."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.timing import messages
from chaoskit.timing.messages import Block, Failed, Hello, Message, Prepare, Prepared, Timed, Wire

TEXTS = st.text(max_size=20)
VARIABLES = st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple)
MESSAGES = st.one_of(
    st.builds(Hello, st.integers(0, 300)),
    st.builds(
        Prepare,
        kind=TEXTS,
        toggles=st.lists(TEXTS, max_size=2).map(tuple),
        variables=st.lists(VARIABLES, max_size=2).map(tuple),
    ),
    st.builds(Prepared, proofs=st.lists(TEXTS, max_size=3).map(tuple), batch=st.integers(0, 9)),
    st.builds(Block, st.integers(0, 1), st.integers(1, 10**6)),
    st.builds(Timed, st.floats(0, 1e6)),
    st.builds(Failed, TEXTS, st.booleans()),
)


@given(st.lists(MESSAGES, max_size=4))
def test_what_is_sent_arrives_in_order(sent: list[Message]) -> None:
    ours, theirs = socket.socketpair()
    one, other = Wire(ours), Wire(theirs)
    for message in sent:
        one.send(message)
    one.close()
    assert [other.receive() for _ in sent] == sent
    assert other.receive() is None
    other.close()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"is": "Nothing"}',
        b'{"is": "Timed", "x": 1}',
        b"\xff",
        b'{"is": "Timed", "wall_s": "1"}',
        b'{"is": "Block", "side": true, "calls": 1}',
    ],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - also those of json
        messages.decode(line)
