"""Tells now and then that a long run still runs: a CI service ends a job that is silent for long.

A thread of its own, as the run itself may wait for hours. What it says is asked of others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

EVERY_S = 60.0
"""Between two signs of life, at first; later a tenth of the time that has passed."""
_SHARE = 0.1


class Heartbeat:
    """Calls ``beat`` with the seconds passed, while its context is open and nothing else was said."""

    def __init__(self, beat: Callable[[float], None], every_s: float = EVERY_S) -> None:
        self._beat = beat
        self._every_s = every_s
        self._began_s = time.monotonic()
        self._said_s = self._began_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._began_s = self._said_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(1.0)  # it may be stuck where nobody reads

    def said(self) -> None:
        """Something was printed just now: the next sign of life has time."""
        self._said_s = time.monotonic()

    def _run(self) -> None:
        while not self._over.wait(max(0.0, self._due_s() - time.monotonic())):
            now_s = time.monotonic()
            if now_s >= self._due_s():
                self._said_s = now_s
                self._beat(now_s - self._began_s)

    def _due_s(self) -> float:
        return self._said_s + max(self._every_s, _SHARE * (self._said_s - self._began_s))
