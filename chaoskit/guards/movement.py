"""Tells guards whether this rank moves: steps, collectives entered and completed, the process group formed.

One listener for all guards, so that a collective pays for it once. May not judge what the movement means.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, Protocol

from chaoskit import progress
from chaoskit.guards import torch_hooks

if TYPE_CHECKING:
    from torch.distributed import Work

    from chaoskit.intercept import Call, Proceed

What = Literal["entered", "completed", "step", "formed"]


class Follower(Protocol):
    """Who wants to know. Called on the thread that moves, in the hot path."""

    def moved(self, what: What) -> None: ...

    def allow(self, until: float) -> None:
        """A declared phase began or ended: until then (CLOCK_MONOTONIC; 0: no phase) no movement is due."""


class _Movement:
    """The listener. ``last`` is the last collective entered: op, group, nth."""

    def __init__(self) -> None:
        self.followers: tuple[Follower, ...] = ()
        self.last: tuple[str, str, int] | None = None
        self.open = 0  # collectives entered and not completed
        self.phases: list[float] = []
        self.sees_collectives = False

    # ---- intercept

    def around(self, call: Call, proceed: Proceed) -> Work | None:
        self.last = (call.op, call.group, call.nth)
        self.open += 1
        self._moved("entered")
        return proceed()

    def done(self, call: Call, error: BaseException | None) -> None:
        self.open -= 1
        if error is None:
            self._moved("completed")

    # ---- torch_hooks

    def before_init(self, given: dict[str, Any]) -> None:
        """Nothing moves yet."""

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        if error is None:
            self._moved("formed")

    # ---- progress

    def step_done(self, step: int) -> None:
        self._moved("step")

    def phase_begin(self, name: str, allowance_s: float) -> None:
        self.phases.append(time.monotonic() + allowance_s)
        self._allow()

    def phase_end(self, name: str) -> None:
        if self.phases:
            self.phases.pop()
        self._allow()

    def report_result(self, value: float) -> None:
        """A result is no movement."""

    def finished(self) -> None:
        """Teardown begins; it may take as long as anything else."""
        self._moved("step")

    def _moved(self, what: What) -> None:
        for follower in self.followers:
            follower.moved(what)

    def _allow(self) -> None:
        for follower in self.followers:
            follower.allow(max(self.phases, default=0.0))


_movement = _Movement()


def follow(follower: Follower) -> bool:
    """Tell ``follower`` of every movement from now on. False where collectives cannot be seen (the process
    group exists already): then only steps and phases count."""
    if not _movement.followers:
        _start()
    _movement.followers = (*_movement.followers, follower)
    return _movement.sees_collectives


def whereabouts() -> str:
    """Return where this rank is, in a few words."""
    at = f"step {progress.steps()}"
    if _movement.last is None:
        return f"{at}, before the first collective"
    op, group, nth = _movement.last
    of = "" if group == "default" else f" of group {group}"
    return f"{at}, {'in' if _movement.open > 0 else 'after'} {op} #{nth}{of}"


def _start() -> None:
    from chaoskit import intercept

    progress.count_optimizer_steps()
    progress.subscribe(_movement)
    torch_hooks.around_init(_movement)
    try:
        intercept.install()
    except RuntimeError:
        return
    intercept.add(_movement)
    _movement.sees_collectives = True
