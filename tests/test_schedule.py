"""The schedule with tasks that wait for the test: no processes, no clocks."""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from chaoskit import schedule
from chaoskit.schedule import Began, Done, Schedule, Task

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 20.0
Heard = Began[str] | Done[str, str]


class Work:
    """What a task does here: it says that it runs, and goes on when it is told how."""

    def __init__(self) -> None:
        self.runs: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.orders: dict[str, queue.SimpleQueue[str | BaseException]] = {}

    def task(self, key: str, *, alone: bool = False) -> Task[str, str]:
        orders = self.orders[key] = queue.SimpleQueue()

        def work(on_idle: Callable[[], None]) -> str:
            self.runs.put(key)
            while True:
                order = orders.get(timeout=LIMIT_S)
                if isinstance(order, BaseException):
                    raise order
                if order != "idle":
                    return order
                on_idle()

        return Task(key, work, alone)

    def tell(self, key: str, order: str | BaseException) -> None:
        self.orders[key].put(order)

    def running(self, count: int) -> set[str]:
        return {self.runs.get(timeout=LIMIT_S) for _ in range(count)}

    @property
    def quiet(self) -> bool:
        return self.runs.empty()


@pytest.fixture
def work() -> Work:
    return Work()


def begun(heard: Iterator[Heard], count: int) -> list[str]:
    found = [next(heard) for _ in range(count)]
    assert all(isinstance(h, Began) for h in found), found
    return [h.key for h in found]


def ended(heard: Iterator[Heard]) -> Done[str, str]:
    found = next(heard)
    assert isinstance(found, Done), found
    return found


def test_results_come_with_their_keys(work: Work) -> None:
    plan: Schedule[str, str] = Schedule(2)
    for key in "ab":
        plan.add(work.task(key))
        work.tell(key, f"result {key}")
    results = {h.key: h.result for h in plan.run() if isinstance(h, Done)}
    assert results == {"a": "result a", "b": "result b"}


def test_nothing_to_do_is_over_at_once() -> None:
    assert list(Schedule[str, str](2).run()) == []


@pytest.mark.parametrize("active", [0, 1, 3])
def test_no_more_are_active_than_allowed(active: int, work: Work) -> None:
    plan: Schedule[str, str] = Schedule(active)
    for key in "abcde":
        plan.add(work.task(key))
    heard = plan.run()
    allowed = max(1, active)
    waiting = list("abcde")
    running: list[str] = []
    for _ in range(5):
        fresh = begun(heard, min(len(waiting), allowed - len(running)))
        assert fresh == waiting[: len(fresh)], "in the order they were added"
        del waiting[: len(fresh)]
        running += fresh
        # The last one that was yielded starts when the schedule is asked again, which then waits for an end.
        work.tell(running[0], "over")
        assert ended(heard).key == running.pop(0)
    assert work.running(5) == set("abcde")
    assert list(heard) == []


def test_one_that_only_waits_makes_room(work: Work) -> None:
    plan: Schedule[str, str] = Schedule(1)
    for key in "ab":
        plan.add(work.task(key))
    heard = plan.run()
    assert begun(heard, 1) == ["a"]
    work.tell("a", "idle")
    assert begun(heard, 1) == ["b"], "a waits, and is not done"
    work.tell("a", "over")
    assert ended(heard) == Done("a", "over")
    work.tell("b", "over")
    assert ended(heard) == Done("b", "over")
    assert list(heard) == []


def test_saying_idle_twice_makes_room_once(work: Work) -> None:
    plan: Schedule[str, str] = Schedule(1)
    for key in "abc":
        plan.add(work.task(key))
    heard = plan.run()
    begun(heard, 1)
    for _ in range(2):
        work.tell("a", "idle")
    assert begun(heard, 1) == ["b"]
    work.tell("a", "over")
    assert ended(heard).key == "a", "c does not begin while b is active"
    work.tell("b", "over")
    assert ended(heard).key == "b"
    assert begun(heard, 1) == ["c"]
    work.tell("c", "over")
    assert ended(heard).key == "c"


def test_waiting_ones_are_bounded_too(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "LIVE_MAX", 2)
    plan: Schedule[str, str] = Schedule(1)
    for key in "abc":
        plan.add(work.task(key))
        work.tell(key, "idle")
    heard = plan.run()
    assert begun(heard, 2) == ["a", "b"]
    work.tell("a", "over")
    assert ended(heard).key == "a", "both only wait, and still there is no room for c"
    assert begun(heard, 1) == ["c"]
    for key in "bc":
        work.tell(key, "over")
    assert {ended(heard).key, ended(heard).key} == {"b", "c"}


def test_one_that_must_be_alone_is_last_and_alone(work: Work) -> None:
    plan: Schedule[str, str] = Schedule(3)
    plan.add(work.task("alone 1", alone=True))
    plan.add(work.task("alone 2", alone=True))
    for key in "ab":
        plan.add(work.task(key))
        work.tell(key, "idle")
    heard = plan.run()
    assert begun(heard, 2) == ["a", "b"]
    for key in "ab":
        work.tell(key, "over")
    assert {ended(heard).key, ended(heard).key} == {"a", "b"}
    assert begun(heard, 1) == ["alone 1"]
    work.tell("alone 1", "idle")
    work.tell("alone 1", "over")
    assert ended(heard).key == "alone 1", "though it said idle, nobody joined it"
    assert begun(heard, 1) == ["alone 2"]
    work.tell("alone 2", "over")
    assert ended(heard).key == "alone 2"


def test_tasks_may_be_added_while_it_runs(work: Work) -> None:
    plan: Schedule[str, str] = Schedule(1)
    plan.add(work.task("a"))
    work.tell("a", "over")
    seen = []
    for heard in plan.run():
        seen.append((type(heard).__name__, heard.key))
        if heard == Done("a", "over"):
            plan.add(work.task("again", alone=True))
            work.tell("again", "over")
    assert seen == [("Began", "a"), ("Done", "a"), ("Began", "again"), ("Done", "again")]


def test_after_a_stop_what_runs_is_waited_for_and_nothing_begins(work: Work) -> None:
    plan: Schedule[str, str] = Schedule(1)
    for key in "ab":
        plan.add(work.task(key))
    plan.add(work.task("alone", alone=True))
    heard = plan.run()
    begun(heard, 1)
    plan.stop()
    work.tell("a", "idle")
    work.tell("a", "over")
    assert ended(heard).key == "a"
    assert list(heard) == []
    assert work.running(1) == {"a"}
    assert work.quiet


def test_a_stop_before_anything_runs(work: Work) -> None:
    plan: Schedule[str, str] = Schedule(1)
    plan.add(work.task("a"))
    plan.stop()
    assert list(plan.run()) == []
    assert work.quiet


def test_a_stop_from_another_thread_wakes_it(work: Work) -> None:
    plan: Schedule[str, str] = Schedule(1)
    for key in "ab":
        plan.add(work.task(key))
    heard = plan.run()
    begun(heard, 1)
    found: list[Heard] = []
    reader = threading.Thread(target=lambda: found.extend(heard))
    reader.start()
    work.running(1)
    plan.stop()
    work.tell("a", "over")
    reader.join(LIMIT_S)
    assert found == [Done("a", "over")]


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3), KeyboardInterrupt()])
def test_whatever_is_raised_is_heard_and_the_rest_goes_on(error: BaseException, work: Work) -> None:
    plan: Schedule[str, str] = Schedule(1)
    for key in "ab":
        plan.add(work.task(key))
    work.tell("a", error)
    work.tell("b", "over")
    done = {h.key: h for h in plan.run() if isinstance(h, Done)}
    assert done["a"].error is error
    assert done["a"].result is None
    assert done["b"] == Done("b", "over")


# ---------------------------------------------------------------- what tasks claim


def claiming(work: Work, key: str, claims: int) -> Task[str, str]:
    return dataclasses.replace(work.task(key), claims=claims)


def test_what_lives_claims_no_more_than_there_is(work: Work) -> None:
    plan: Schedule[str, str] = Schedule(8, supply=10)
    for key, claims in (("a", 4), ("b", 8), ("c", 6), ("free", 0)):
        plan.add(claiming(work, key, claims))
    heard = plan.run()
    assert begun(heard, 3) == ["a", "c", "free"], "b does not fit beside a, and others do not wait for it"
    work.tell("a", "idle")  # one that only waits holds its memory all the same
    work.tell("c", "done")
    assert ended(heard).key == "c"
    work.tell("a", "done")
    assert ended(heard).key == "a"
    assert begun(heard, 1) == ["b"]
    for key in ("b", "free"):
        work.tell(key, "done")
    assert {h.key for h in heard if isinstance(h, Done)} == {"b", "free"}


def test_one_that_claims_more_than_there_is_lives_without_others_that_claim(work: Work) -> None:
    plan: Schedule[str, str] = Schedule(8, supply=10)
    for key, claims in (("huge", 99), ("a", 1), ("free", 0)):
        plan.add(claiming(work, key, claims))
    heard = plan.run()
    assert begun(heard, 2) == ["huge", "free"]
    work.tell("huge", "done")
    assert ended(heard).key == "huge"
    assert begun(heard, 1) == ["a"]
    for key in ("a", "free"):
        work.tell(key, "done")
    assert len([h for h in heard if isinstance(h, Done)]) == 2
