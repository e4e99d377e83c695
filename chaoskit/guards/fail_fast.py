"""Ends a rank at once when an exception leaves its script, without a teardown that could wait for peers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chaoskit.guards import torch_hooks, uncaught
from chaoskit.guards.context import GuardContext
from chaoskit.guards.failure import category, first_line
from chaoskit.model import Guard


@dataclass(frozen=True, slots=True)
class FailFast(Guard):
    """An exception that nobody catches ends the rank at once, after its traceback.

    - A lost peer or a timeout of torch.distributed, also when an own exception was raised because
      of it, exits 82: infrastructure or another rank, not this script.
    - Any other exception of the main thread exits 1, as Python would, but without atexit handlers,
      destructors and ``destroy_process_group()``, any of which can wait for peers for a whole timeout.
      In other threads Python goes on after an exception, and so does this guard, unless the exception
      is a lost peer, a timeout or an out-of-memory.
    - ``destroy_process_group()`` called while such a distributed error is being handled (``except``,
      ``finally``, a context manager's exit) goes straight to that exit. While another exception is
      handled, which may be a script's normal way out, it gets ``teardown_s`` and then exits 1.

    Not caught: errors that the script catches and forgets; a script that replaces ``sys.excepthook``
    after the process group has formed and does not call the one before. What atexit handlers would have
    uploaded is lost; flush logs as you go.
    """

    name: ClassVar[str] = "fail_fast"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {
        82: "a peer was lost or an operation of torch.distributed timed out",
        1: "an exception of the script's own, ended without teardown",
    }

    teardown_s: float = 5.0

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Take over uncaught exceptions and bound teardown under an exception."""
        uncaught.on_uncaught(_decide, rank, priority=2)
        torch_hooks.replace(
            "destroy_process_group", lambda original: _bounded(original, self.teardown_s, rank)
        )
        return ("excepthook=main,threads", f"teardown={self.teardown_s:g}s")


def _decide(error: BaseException, where: uncaught.Where) -> uncaught.Ending | None:
    if not isinstance(error, Exception):  # SystemExit, KeyboardInterrupt: somebody's decision
        return None
    found = category(error)
    if found in ("peer_lost", "timeout"):
        what = "a peer was lost" if found == "peer_lost" else "an operation timed out"
        hint = "look for the rank that failed first; this one only noticed"
        return uncaught.Ending("fail_fast", 82, f"{what} ({first_line(error)}); {hint}")
    if where == "main":
        return uncaught.Ending(
            "fail_fast", 1, f"{first_line(error)} left the script; no teardown, the traceback is above"
        )
    return None


def _bounded(original: Callable[..., Any], teardown_s: float, rank: GuardContext) -> Callable[..., Any]:
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        error = sys.exc_info()[1]
        if not isinstance(error, Exception):
            return original(*args, **kwargs)
        message = (
            f"destroy_process_group() took more than {teardown_s:g} s while handling {first_line(error)}"
        )
        timer = threading.Timer(teardown_s, uncaught.end, (rank, uncaught.Ending("fail_fast", 1, message)))
        timer.daemon = True
        timer.start()
        try:
            return original(*args, **kwargs)
        finally:
            timer.cancel()

    return destroy_process_group
