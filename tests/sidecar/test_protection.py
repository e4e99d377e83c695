"""What keepers tell one another when a rank is lost: who waits for whom, and how long. Without any rank."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from chaoskit.sidecar import processes, protection
from chaoskit.sidecar.keeper import Keeper, OnReady
from chaoskit.sidecar.leaving import SETTLE_S
from chaoskit.sidecar.links import Kind, Message
from chaoskit.sidecar.policy import Limits
from chaoskit.sidecar.protection import Identity, Protection

TOKEN = "t" * 32
HERE, NAMESPACE = "here", processes.pid_namespace()
NOBODY = 1 << 30
"""The number of no process: above what Linux gives out."""


class Standing:
    """A keeper whose rank is made to end by the test."""

    def __init__(self) -> None:
        self.pid, self.is_stopped, self.ending = 0, False, False
        self.exit_code: int | None = None
        self._selector = selectors.DefaultSelector()

    def watch(self, file: socket.socket, events: int, ready: OnReady) -> None:
        self.forget(file)
        self._selector.register(file, events, ready)

    def forget(self, file: socket.socket) -> None:
        if file in self._selector.get_map():
            self._selector.unregister(file)

    def end(self, exit_code: int, grace_s: float, why: str) -> None:
        self.ending = True

    def turn(self) -> None:
        for key, events in self._selector.select(0):
            key.data(events)


class Other:
    """Another keeper, as far as its connection goes."""

    def __init__(self, connection: socket.socket, rank: int, host: str, token: str = TOKEN) -> None:
        self._rank, self._host, self._token = rank, host, token
        self._connection = connection
        self._connection.setblocking(False)
        self._data = b""
        self.kinds: list[str] = []
        self.hung_up = False

    def tell(self, kind: Kind, **fields: object) -> None:
        told = {"rank": self._rank, "host": self._host, "pid": 7, "namespace": NAMESPACE, **fields}
        self._connection.sendall(Message(kind, **told).to_bytes(self._token))  # type: ignore[arg-type]

    def heard(self) -> list[str]:
        """All that it was told up to now, but beats."""
        with contextlib.suppress(BlockingIOError):
            data = self._connection.recv(65536)
            self.hung_up = not data
            self._data += data
        while self._data:
            (length,) = struct.unpack_from("!I", self._data)
            self.kinds.append(json.loads(self._data[4 : 4 + length])["kind"])
            self._data = self._data[4 + length :]
        return [kind for kind in self.kinds if kind != "beat"]

    def end(self) -> None:
        self._connection.close()


class Clock:
    """Stands still unless a test says so. Never more than a second at a time: that is a suspended machine."""

    def __init__(self) -> None:
        self.t = time.monotonic()

    def go(self, seconds: float) -> None:
        self.t += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(protection, "time", SimpleNamespace(monotonic=lambda: clock.t))
    return clock


class Bench:
    """The keeper of one rank of four under test."""

    def __init__(self, rank: int, clock: Clock) -> None:
        self._clock = clock
        self.keeper = Standing()
        self.it = Protection(Limits(), Identity(rank, 4, HERE, this_host_only=True))

    def attach(self) -> None:
        self.it.attach(cast(Keeper, self.keeper))

    def turn(self, later_s: float = 0.0) -> None:
        self._clock.go(later_s)
        self.keeper.turn()
        self.it.tick(self._clock.t)

    def until(self, condition: Callable[[], object]) -> None:
        limit = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < limit
            self.turn()

    def fail(self) -> None:
        self.keeper.exit_code = 1
        self.it.ended(1, self._clock.t)
        self.turn()


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """Of the processes on this host, by pid."""
    states: dict[int, str] = {}
    monkeypatch.setattr(processes, "keeper_state", lambda pid: states.get(pid, ""))
    return states


@pytest.fixture
def failed(clock: Clock) -> tuple[Bench, Other]:
    """The keeper of rank 2, which has ended with exit code 1, and that of rank 0."""
    here, there = socket.socketpair()
    bench, hub = Bench(2, clock), Other(there, 0, "elsewhere")
    bench.it.hand_over(here, TOKEN)
    here.close()
    bench.attach()
    bench.until(lambda: hub.heard() == ["hello"])
    bench.fail()
    assert hub.heard() == ["hello", "ended"]
    assert bench.it.stays(), "until it is told which rank was lost first"
    return bench, hub


def test_a_failed_rank_that_was_the_first_one_leaves(failed: tuple[Bench, Other]) -> None:
    bench, hub = failed
    hub.tell("end", rank=2, host=HERE, pid=8)
    bench.turn()
    assert not bench.it.stays()
    assert not bench.keeper.ending
    bench.it.closing()
    assert hub.heard()[-1] == "bye"
    hub.heard()
    assert not hub.hung_up, "before the process ends"


def test_one_that_was_not_leaves_after_the_first(failed: tuple[Bench, Other], states: dict[int, str]) -> None:
    bench, hub = failed
    states[NOBODY] = "S"
    hub.tell("end", rank=1, host=HERE, pid=NOBODY)
    bench.turn()
    hub.tell("gone", rank=1)  # who can look does not ask
    bench.turn(later_s=0.5)
    assert bench.it.stays()
    states[NOBODY] = ""
    bench.turn(later_s=0.1)
    assert bench.it.stays(), "its parent is another one"
    bench.turn(later_s=SETTLE_S)
    assert not bench.it.stays()
    assert hub.heard()[2:] == ["gone"]


@pytest.mark.parametrize("last", ["gone", "bye", "silence"])
def test_of_one_on_another_host_it_is_told_or_nobody_is_left_to_tell(
    failed: tuple[Bench, Other], last: str
) -> None:
    bench, hub = failed
    hub.tell("end", rank=1, host="elsewhere", pid=9)
    bench.turn(later_s=0.5)
    assert bench.it.stays()
    if last != "silence":
        hub.tell("gone" if last == "gone" else "bye")
    if last == "bye":
        bench.turn(later_s=0.9)
        assert bench.it.stays(), "its process has not ended yet"
    if last != "gone":
        hub.end()
    bench.turn()
    bench.turn(later_s=SETTLE_S * 0.9)
    assert bench.it.stays()
    bench.turn(later_s=SETTLE_S * 0.2)
    assert not bench.it.stays()


def test_one_that_will_not_leave_is_not_waited_for(failed: tuple[Bench, Other]) -> None:
    bench, hub = failed
    hub.tell("end", rank=1, host=HERE, pid=0)
    bench.turn()
    assert not bench.it.stays()


def test_no_answer_is_waited_for_for_ever(failed: tuple[Bench, Other]) -> None:
    bench, _ = failed
    bench.turn(later_s=0.9)
    bench.turn(later_s=0.9)
    assert bench.it.stays()
    bench.turn(later_s=0.3)
    assert not bench.it.stays()


@pytest.mark.parametrize("witness", [True, False])
def test_rank_0s_keeper_hears_those_who_can_look(witness: bool, clock: Clock) -> None:
    bench = Bench(0, clock)
    bench.attach()
    assert bench.it.address
    hosts = {1: "far", 2: "far" if witness else "farther", 3: "farthest"}
    others = {}
    for rank, host in hosts.items():
        connection = socket.create_connection(("127.0.0.1", bench.it.address.port), 20)
        others[rank] = Other(connection, rank, host, bench.it.address.token)
        others[rank].tell("hello")
    bench.until(lambda: all(other.heard() == ["hello"] for other in others.values()))
    others[1].tell("ended", exit_code=1)
    bench.until(lambda: others[3].heard()[1:] == ["end"])
    assert bench.keeper.ending
    others[1].tell("bye")
    others[1].end()
    bench.until(lambda: 1 not in bench.it._members)
    assert bench.it.stays()
    if witness:
        bench.turn()
        assert others[3].heard()[1:] == ["end"]
        others[2].tell("gone")
    bench.until(lambda: others[3].heard()[1:] == ["end", "gone"])
    assert bench.it.stays()
    bench.turn(later_s=SETTLE_S)
    assert not bench.it.stays()
    for other in others.values():
        other.end()
    assert bench.it._listener
    bench.it._listener.close()
