"""Runs arms side by side. A hang only waits, so only arms that use the CPU count against the limit.

One thread per running arm; whoever calls :meth:`Schedule.run` is the only one that decides, and
hears of everything through one queue.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")
R = TypeVar("R")

LIVE_MAX = 32
"""Arms that may exist at a time, waiting ones included (memory, file descriptors)."""


@dataclass(frozen=True, slots=True)
class Task(Generic[K, R]):
    """Something to run in a thread; ``work`` is given a function to call once it only waits.

    ``claims`` is what it takes of the schedule's supply (memory of the fullest GPU) as long as it lives.
    """

    key: K
    work: Callable[[Callable[[], None]], R]
    alone: bool = False
    claims: int = 0


@dataclass(frozen=True, slots=True)
class Began(Generic[K]):
    key: K


@dataclass(frozen=True, slots=True)
class Done(Generic[K, R]):
    """A task is over: its result, or the exception that it raised."""

    key: K
    result: R | None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Idle(Generic[K]):
    key: K


class Schedule(Generic[K, R]):
    """At most ``active`` tasks that use the CPU at a time. Tasks may be added while it runs.

    Those that live claim no more than ``supply`` together; one that claims more than there is lives without
    any other that claims.
    """

    def __init__(self, active: int, supply: int = 0) -> None:
        self._active_max = max(1, active)
        self._supply = supply
        self._claimed: dict[K, int] = {}
        self._waiting: deque[Task[K, R]] = deque()
        self._alone: deque[Task[K, R]] = deque()
        self._heard: queue.SimpleQueue[_Idle[K] | Done[K, R] | None] = queue.SimpleQueue()
        self._active: set[K] = set()
        self._live: set[K] = set()
        self._stopped = False

    def add(self, task: Task[K, R]) -> None:
        (self._alone if task.alone else self._waiting).append(task)

    def stop(self) -> None:
        """Start nothing more; what runs is waited for. May be called from a signal handler."""
        self._stopped = True
        self._heard.put(None)

    def run(self) -> Iterator[Began[K] | Done[K, R]]:
        """Yield what begins and what is done until nothing is left."""
        while True:
            while (task := self._next()) is not None:
                yield Began(task.key)
                self._start(task)
            if not self._live:
                return
            heard = self._heard.get()
            if heard is None:
                continue
            self._active.discard(heard.key)
            if isinstance(heard, Done):
                self._live.discard(heard.key)
                self._claimed.pop(heard.key, None)
                yield heard

    def _next(self) -> Task[K, R] | None:
        if self._stopped:
            return None
        if len(self._active) < self._active_max and len(self._live) < LIVE_MAX:
            fitting = next((task for task in self._waiting if self._fits(task)), None)
            if fitting is not None:
                self._waiting.remove(fitting)
                return fitting
        if self._alone and not self._live and not self._waiting:
            return self._alone.popleft()
        return None

    def _fits(self, task: Task[K, R]) -> bool:
        taken = sum(self._claimed.values())
        return not task.claims or not taken or taken + task.claims <= self._supply

    def _start(self, task: Task[K, R]) -> None:
        if task.claims:
            self._claimed[task.key] = task.claims
        self._active.add(task.key)
        self._live.add(task.key)
        threading.Thread(target=self._do, args=(task,), name=f"arm {task.key}", daemon=True).start()

    def _do(self, task: Task[K, R]) -> None:
        try:
            result = task.work(lambda: self._heard.put(_Idle(task.key)))
            self._heard.put(Done(task.key, result))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller must hear of it
            self._heard.put(Done(task.key, None, error))
