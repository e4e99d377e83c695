"""What a training script may declare about itself: steps, long phases, its result, its end.

Everything here costs a script next to nothing and does nothing until someone subscribes (a guard,
or chaoskit's own recorder). Standard library only; torch is imported only by
:func:`count_optimizer_steps`, which is called where torch is in use anyway.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class ProgressListener(Protocol):
    """Who is told. Called on the thread that declares; must be quick and may not raise."""

    def step_done(self, step: int) -> None:
        """Step number ``step`` is done."""

    def phase_begin(self, name: str, allowance_s: float) -> None:
        """Until the phase ends, no progress is due for ``allowance_s``."""

    def phase_end(self, name: str) -> None:
        """The innermost open phase, called ``name``, is over."""

    def report_result(self, value: float) -> None:
        """The workload's result on this rank."""

    def finished(self) -> None:
        """The script's work is done; what follows is teardown."""


class _Declared:
    """The state of this process: who listens, and how far it got."""

    def __init__(self) -> None:
        self.listeners: tuple[ProgressListener, ...] = ()
        self.steps = 0
        self.explicit = False  # the script calls step_done() itself
        self.hooked = False

    def emit_step(self, step: int) -> None:
        self.steps = step
        for listener in self.listeners:
            listener.step_done(step)


_declared = _Declared()


def subscribe(listener: ProgressListener) -> None:
    """Tell ``listener`` of everything declared from now on. Once is enough; again is no error."""
    if all(known is not listener for known in _declared.listeners):
        _declared.listeners = (*_declared.listeners, listener)


def unsubscribe(listener: ProgressListener) -> None:
    """Stop telling ``listener``."""
    _declared.listeners = tuple(known for known in _declared.listeners if known is not listener)


def step_done(step: int | None = None) -> None:
    """Declare that a step is done. Call it once per step, after the optimizer.

    A script that calls this counts its own steps: steps seen at optimizers no longer count. Without
    ``step`` the number is one more than the last.
    """
    if not _declared.explicit:
        _declared.explicit = True
        if step is None and _declared.steps > 0:
            return  # this very step has been counted at the optimizer already
    _declared.emit_step(_declared.steps + 1 if step is None else step)


@contextmanager
def phase(name: str, allowance_s: float) -> Iterator[None]:
    """Declare a long phase: inside it no progress is due for ``allowance_s`` seconds.

    with chaoskit.guards.phase("checkpoint", 600):
        torch.save(state, path)
    """
    for listener in _declared.listeners:
        listener.phase_begin(name, allowance_s)
    try:
        yield
    finally:
        for listener in _declared.listeners:
            listener.phase_end(name)


def report_result(value: float) -> None:
    """Declare the workload's result on this rank: a number that can be compared with a known one."""
    for listener in _declared.listeners:
        listener.report_result(value)


def finished() -> None:
    """Declare that the work is done: an end with exit 0 from here on is no early exit."""
    for listener in _declared.listeners:
        listener.finished()


def steps() -> int:
    """Return the number of the last step that is done, 0 before the first."""
    return _declared.steps


def count_optimizer_steps() -> None:
    """Let every optimizer step count as a step, until the script calls :func:`step_done` itself.

    Each optimizer of a script counts on its own. Installed once per process, and only in the
    process that asked: a worker forked later has its optimizer steps ignored.
    """
    if _declared.hooked:
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    _declared.hooked = True
    process = os.getpid()

    def stepped(*_: Any) -> None:
        if not _declared.explicit and os.getpid() == process:
            _declared.emit_step(_declared.steps + 1)

    register_optimizer_step_post_hook(stepped)
