"""A launcher blames the rank that it sees end first: so the keeper of the lost rank leaves first."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator

import pytest
from sidecar.kept_job import (
    formed,
    rank,
    start_kept,
    state,
    swallow_sigterm,
    wait_and_check,
    wait_for_end,
    waiting_outside,
)

from chaoskit.guards.sidecar import Sidecar
from chaoskit.sidecar import leaving
from chaoskit.sidecar.keeper import Keeper, Watcher
from chaoskit.sidecar.leaving import HELD_UP_S, LOOK_S, LOOKS, SETTLE_S, Departure

GRACE_S = 0.5


class Gate(Watcher):
    """Keeps the keeper of one rank from leaving until somebody opens it."""

    def __init__(self, rank: int) -> None:
        self._rank = str(rank)
        self._reader, self._writer = os.pipe()
        self._open = False

    def attach(self, keeper: Keeper) -> None:
        if os.environ["RANK"] == self._rank:
            keeper.watch(self._reader, selectors.EVENT_READ, self._opened)

    def _opened(self, events: int) -> None:
        self._open = bool(os.read(self._reader, 1))

    def stays(self) -> bool:
        return os.environ["RANK"] == self._rank and not self._open

    def open(self) -> None:
        os.write(self._writer, b"x")

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@pytest.fixture
def gate(request: pytest.FixtureRequest) -> Iterator[Gate]:
    gate = Gate(request.param)
    yield gate
    gate.close()


@pytest.fixture
def no_time_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for is the event, however slow this machine is."""
    monkeypatch.setattr(leaving, "HELD_UP_S", 300.0)


@pytest.fixture
def no_bounds(no_time_bound: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it given up after many looks."""
    monkeypatch.setattr(leaving, "LOOKS", 100_000)


def running(pids: list[int]) -> list[int]:
    return [pid for pid in pids if state(pid) not in ("", "Z")]


@pytest.mark.usefixtures("no_bounds")
@pytest.mark.parametrize(
    ("how", "gate", "hosts"),
    [("killed", 0, 1), ("killed", 2, 1), ("swallows", 0, 1), ("swallows", 2, 1), ("killed", 2, 3)],
    indirect=["gate"],
)
def test_the_keeper_of_the_lost_rank_leaves_first(
    how: str, gate: Gate, hosts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held up, it keeps the others; none of them leaves before its end has been waited for."""
    victim = int(gate._rank)
    if hosts > 1:
        monkeypatch.setattr(socket, "gethostname", lambda: f"host-{os.environ['RANK']}")

    def main() -> None:
        if rank() == victim:
            swallow_sigterm()
        waiting_outside()

    job = start_kept(main, Sidecar(sigterm_wait_s=0.5, grace_s=0.1), watchers=[gate])
    ranks = formed(job)
    if how == "killed":
        os.kill(ranks[victim], signal.SIGKILL)
    else:
        os.kill(job.pids[victim], signal.SIGTERM)
    for pid in ranks:
        wait_for_end(pid)
    time.sleep(0.5)  # what must not happen has no event
    assert running(job.pids) == job.pids
    gate.open()
    if hosts == 1:
        wait_for_end(job.pids[victim])
        time.sleep(0.2)  # ended, and not waited for yet
        assert len(running(job.pids)) == 2
    ended = wait_and_check(job, ranks, time.monotonic())
    assert [end.code for end in ended] == [
        90 if how == "swallows" or slot != victim else -9 for slot in range(3)
    ]
    others = [end.after_s for slot, end in enumerate(ended) if slot != victim]
    assert hosts > 1 or min(others) > ended[victim].after_s


@pytest.mark.parametrize("gate", [0, 2], indirect=True)
def test_a_keeper_that_is_held_up_for_too_long_is_not_waited_for(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "HELD_UP_S", 0.3)
    victim = int(gate._rank)
    job = start_kept(waiting_outside, Sidecar(grace_s=0.1), watchers=[gate])
    ranks = formed(job)
    os.kill(ranks[victim], signal.SIGKILL)
    ended = job.wait(60, kill=[victim])
    assert [end.code for slot, end in enumerate(ended) if slot != victim] == [90, 90]


@pytest.mark.usefixtures("no_time_bound")
def test_a_launcher_that_waits_for_another_rank_first_is_not_waited_for() -> None:
    job = start_kept(waiting_outside, Sidecar(), ranks=2)
    ranks = formed(job)
    os.kill(ranks[1], signal.SIGKILL)
    wait_for_end(job.pids[0])
    assert [state(pid) for pid in job.pids] == ["Z", "Z"]
    assert [end.code for end in job.wait()] == [90, -9]


class Seen:
    """What a keeper sees of the lost rank's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.parent = "S", os.getppid()
        monkeypatch.setattr(leaving.processes, "keeper_state", lambda pid: self.state)
        monkeypatch.setattr(leaving.processes, "parent", lambda pid: self.parent)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def over(departure: Departure, t: float) -> bool:
    departure.look(t)
    return departure.over


def test_it_is_over_when_the_common_launcher_has_waited_for_it(seen: Seen) -> None:
    departure = Departure(7, GRACE_S, 0)
    departure.told(0)  # who can look does not ask
    assert not over(departure, 1)
    seen.state = "Z"
    assert not over(departure, 1.1)
    seen.state = ""
    assert over(departure, 1.2)


def test_what_stands_between_it_and_the_launcher_is_given_time(seen: Seen) -> None:
    seen.parent += 1
    departure = Departure(7, GRACE_S, 0)
    seen.state = ""
    assert not over(departure, 1)
    assert departure.seen
    assert departure.next_due() == 1 + SETTLE_S
    assert over(departure, 1 + SETTLE_S)


def test_an_ended_one_that_nobody_waits_for_is_looked_at_a_while(seen: Seen) -> None:
    departure = Departure(7, GRACE_S, 0)
    seen.state = "Z"
    at = [10 + n * LOOK_S * 1.01 for n in range(LOOKS)]  # a machine that stood still: no time has passed
    departure.postpone(10)
    assert [over(departure, t) for t in at] == [False] * LOOKS
    assert over(departure, 10 + GRACE_S)
    assert departure.seen


@pytest.mark.parametrize("told", [False, True])
def test_one_that_cannot_be_seen_is_told_of_or_not_waited_for_for_ever(told: bool) -> None:
    departure = Departure(0, GRACE_S, 0)
    if told:
        departure.told(1)
        departure.told(2)
    last = 1 + SETTLE_S if told else GRACE_S + HELD_UP_S
    assert departure.next_due() == last
    assert not over(departure, last - 0.01)
    assert over(departure, last)


@pytest.mark.parametrize("state", ["S", "T", "D"])
def test_one_that_stays_is_not_waited_for_for_ever(seen: Seen, state: str) -> None:
    departure = Departure(7, GRACE_S, 0)
    seen.state = state
    assert not over(departure, GRACE_S + HELD_UP_S - 0.01)
    assert over(departure, GRACE_S + HELD_UP_S)
    assert not departure.seen
