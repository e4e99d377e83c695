"""Counting: which occurrence a trigger means."""

from __future__ import annotations

import signal
import threading

import pytest

from chaoskit.faults import RankFault
from chaoskit.faults.kill import Kill
from chaoskit.faults.raise_ import Raise
from chaoskit.faults.slow import Slow
from chaoskit.guards.failure import chain
from chaoskit.model import Injection, Phase, Trigger
from chaoskit.rank.triggers import MainThread, Shot, shots_of


def shot(when: Trigger, fault: RankFault | None = None) -> Shot:
    return shots_of((Injection(fault or Kill((0,)), when),), 0)[0]


def test_the_nth_of_its_group_is_due_once() -> None:
    it = shot(Trigger("collective", op="all_reduce", nth=2))
    asked = [it.due("default"), it.due("left"), it.due("default"), it.due("default")]
    assert asked == [False, False, True, False]


def test_with_a_step_the_count_is_within_that_step() -> None:
    it = shot(Trigger("collective", op="all_reduce", nth=2, step=3))
    asked = [(step, it.due("default", step)) for step in (1, 1, 2, 2, 3, 3, 3, 4)]
    assert [a for a in asked if a[1]] == [(3, True)]
    assert asked[5] == (3, True)


def test_a_lasting_fault_is_due_from_the_nth_on() -> None:
    it = shot(Trigger("collective", op="all_reduce", nth=2), Slow((0,), 0.1))
    assert [it.due("default") for _ in range(4)] == [False, True, True, True]


def test_who_is_no_target_may_have_to_wait_during_only() -> None:
    during = Injection(Kill((1,)), Trigger("collective", op="all_reduce", phase=Phase.DURING))
    before = Injection(Kill((1,)), Trigger("collective", op="all_reduce"))
    assert [(s.index, s.holds) for s in shots_of((before, during), 0)] == [(1, True)]
    assert [(s.index, s.holds) for s in shots_of((before, during), 1)] == [(0, False), (1, False)]


class Stop(Exception):
    """What a fault raises."""


def test_what_is_due_on_another_thread_fires_in_the_main_one_and_none_is_forgotten() -> None:
    seen: list[tuple[Shot, bool]] = []

    def fire(one: Shot) -> None:
        seen.append((one, threading.current_thread() is threading.main_thread()))
        raise Stop

    number = signal.SIGRTMIN + 8
    before = signal.getsignal(number)
    shots = [shot(Trigger("after"), Raise((0,), "ValueError: x")) for _ in range(3)]
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])  # all are due by the time the first one fires
    try:
        main = MainThread(fire)
        rings = [threading.Thread(target=main.fire, args=(one,)) for one in shots]
        for ring in rings:
            ring.start()
        for ring in rings:
            ring.join()
        assert not seen
        with pytest.raises(Stop) as raised:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        signal.signal(number, before)
    assert {id(one) for one, _ in seen} == {id(one) for one in shots}
    assert len(seen) == 3
    assert all(there for _, there in seen)
    assert [type(error) for error in chain(raised.value)] == [Stop] * 3


def test_what_has_the_same_effect_anywhere_fires_at_once_where_it_is_due() -> None:
    seen: list[int] = []
    before = signal.getsignal(signal.SIGRTMIN + 8)
    try:
        main = MainThread(lambda _: seen.append(threading.get_ident()))
        ring = threading.Thread(target=main.fire, args=(shot(Trigger("after")),))
        ring.start()
        ring.join()
    finally:
        signal.signal(signal.SIGRTMIN + 8, before)
    assert seen == [ring.ident]
