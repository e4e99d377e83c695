"""The watchdog of the articles, to the letter, so that what it does not hold can be shown. Use
progress_watchdog."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chaoskit import progress
from chaoskit.guards import torch_hooks
from chaoskit.guards.context import GuardContext
from chaoskit.model import Guard


@dataclass(frozen=True, slots=True)
class FolkloreWatchdog(Guard):
    """A daemon thread wakes every ``wake_s``; if the last step's heartbeat is older than ``timeout_s`` it
    prints and calls ``os._exit(1)``. Started once the process group has formed, as in the articles.

    A Python thread: blind while the GIL is held; blind before the process group has formed; ends a healthy
    long checkpoint; and exit 1 cannot be told from a bug.
    """

    name: ClassVar[str] = "folklore_watchdog"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {1: "no step within the timeout"}

    wake_s: float = 10.0
    timeout_s: float = 300.0

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Start the thread when the process group has formed."""
        progress.count_optimizer_steps()
        torch_hooks.around_init(_Heartbeat(self, rank))
        return (f"wake={self.wake_s:g}s", f"timeout={self.timeout_s:g}s")


class _Heartbeat:
    def __init__(self, guard: FolkloreWatchdog, rank: GuardContext) -> None:
        self._guard = guard
        self._rank = rank
        self._last = 0.0

    def before_init(self, given: dict[str, Any]) -> None:
        """The articles start later."""

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        if error is None:
            self._last = time.monotonic()
            progress.subscribe(self)
            threading.Thread(target=self._watch, name="chaoskit folklore_watchdog", daemon=True).start()

    def step_done(self, step: int) -> None:
        self._last = time.monotonic()

    def phase_begin(self, name: str, allowance_s: float) -> None:
        """The articles know no phases."""

    def phase_end(self, name: str) -> None:
        """The articles know no phases."""

    def report_result(self, value: float) -> None:
        """No heartbeat."""

    def finished(self) -> None:
        """No heartbeat."""

    def _watch(self) -> None:
        while True:
            time.sleep(self._guard.wake_s)
            age = time.monotonic() - self._last
            if age > self._guard.timeout_s:
                self._rank.fired(self._guard.name, 1, f"no heartbeat for {age:.1f} s, exiting")
                os._exit(1)
