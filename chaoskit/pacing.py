"""When the supervisor looks at an arm, and what a limit means: values and times, no process.

Two limits follow each other. Until the last fault has fired (or to the end, where there is none) a built-in
workload has its *start limit*, as it is known how long it takes; a user's program may go on as long as
it makes any progress within ``stall_s``. From the last fault on, the deadline counts.
"""

from __future__ import annotations

import math
import time
from typing import Final

from chaoskit.judge import hang
from chaoskit.model import Plan

STILL_S: Final = 2.0
"""How long nothing may move before a rank counts as still (see judge/hang.py)."""
EXTENSION: Final = 2.0
"""A job that still moves at its deadline gets this many deadlines more, once, before it is overdue."""
LAUNCH_LIMIT_S: Final = 120.0
"""How long a launcher of the user's may take until its first rank is there."""
STALL_LOOKS: Final = 4
"""Looks in one ``stall_s``: a hang is seen at most a quarter of it late."""


class Clock:
    """When to look and when to end.

    Looks before a limit are taken every STILL_S / 2, the last at the limit; the first only sees who runs at
    all (see evidence/look.py). On a loaded machine they come later, and the decision waits for them.
    ``over_s`` is how far back nothing may have moved for a hang, 0 for as far as the looks reach.
    """

    def __init__(self, plan: Plan, start: float) -> None:
        by_launch = bool(plan.injections) and all(i.when.kind == "launch" for i in plan.injections)
        self._plan = plan
        self._end_s = math.inf if plan.timeout_s is None else start + plan.timeout_s
        self._come_s = start + max(LAUNCH_LIMIT_S, plan.stall_s or 0.0)
        self._fired = 0
        self.extended = False
        self.nobody_came = False
        self.over_s = 0.0
        self._looks: list[float] = []
        if plan.stall_s is not None and not (by_launch and not plan.healthy):
            self.over_s = plan.stall_s
            self.allowed = plan.stall_s
            self._every_s = max(0.5, plan.stall_s / STALL_LOOKS)
            self.limit = self._end_s
            self.next_look = start + self._every_s
        else:
            self.allowed = plan.deadline_s if by_launch and not plan.healthy else plan.start_limit_s
            self._set(start + self.allowed)

    def _set(self, limit: float) -> None:
        self.over_s = 0.0
        self._every_s = STILL_S / 2
        self.limit = limit
        self.next_look = limit - 1.5 * STILL_S
        self._looks = []

    def due(self, anyone: bool) -> bool:
        """Whether a decision is due: enough looks over a long enough time, and the limit is there."""
        now = time.monotonic()
        if not anyone and self.over_s:
            self.nobody_came = now >= min(self._come_s, self.limit)
            return self.nobody_came
        looks = self._looks[-hang.SAMPLES_MIN :]
        if len(self._looks) <= hang.SAMPLES_MIN:
            return False
        if self.over_s:
            covered = self._looks[-1] - self._looks[0] > 0.99 * self.over_s
            return covered or now >= self.limit
        return now >= self.limit and looks[-1] - looks[0] > 0.9 * STILL_S

    def may_go_on(self, now: float) -> bool:
        """Whether a job that moves gets more time."""
        if self.over_s:
            return now < self.limit and not self.nobody_came
        return self._plan.timeout_s is None and not self.extended

    def go_on(self, now: float) -> float:
        """Give it more time; return how much, 0 where nothing has changed (it is not yet at a limit)."""
        if self.over_s:
            return 0.0
        extra = EXTENSION * self.allowed
        self.extended = True
        self._set(now + extra)
        return extra

    def update(self, fired: list[int]) -> None:
        """A doorbell rang: where a fault has fired anew, the deadline counts from now."""
        if self._plan.healthy or sum(fired) <= self._fired or self.extended:
            return
        self._fired = sum(fired)
        self.allowed = self._plan.deadline_s
        self._set(time.monotonic() + self._plan.deadline_s)

    def looked(self, now: float) -> None:
        self._looks.append(now)
        self.next_look = max(now + self._every_s, self.next_look + self._every_s)
        if self.over_s:  # the last of all falls on the limit
            self.next_look = min(self.next_look, max(now + 0.5, self.limit))

    def stop(self) -> None:
        self.limit = time.monotonic()
        self.next_look = float("inf")
