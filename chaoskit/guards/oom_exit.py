"""Ends a rank that ran out of memory, so that its peers do not wait for it; also when the script caught the
error."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chaoskit import progress
from chaoskit.guards import movement, uncaught
from chaoskit.guards.context import GuardContext
from chaoskit.guards.failure import category, first_line
from chaoskit.guards.movement import What
from chaoskit.model import Guard

_POLL_S = 0.5  # or a tenth of idle_s, if that is less
_MARK = "_chaoskit_moves"
"""An attribute of an error: how often the rank had moved when it was first seen. It goes with the error,
which nobody else may keep: its frames hold the memory that the script wants back."""
_COLLECTIVES = ("torch.distributed.distributed_c10d", "torch.distributed._functional_collectives")
"""Modules that call none of the script's code: the rest of torch.distributed also runs the script itself."""


@dataclass(frozen=True, slots=True)
class OomExit(Guard):
    """An out-of-memory error ends the rank with exit 86, by whatever name it comes:
    ``torch.OutOfMemoryError``, ``MemoryError``, and the plain ``RuntimeError`` of torch's CPU allocator.

    What is caught by what:

    - nobody catches it: at once.
    - it is caught and the handler calls ``destroy_process_group()``: at that call, which would otherwise wait
      for the peers' operations.
    - it is caught and the rank goes on without taking part: when ``idle_s`` pass after the error without a
      step and without this rank entering or completing a collective (declared phases extend it). A
      ``torch.OutOfMemoryError`` is noticed when it is made; the other two are builtin types and are noticed
      only while the script is inside its ``except`` block (looked at twice a second). After that block they
      are the progress watchdog's.
    - it is caught and the rank goes on *with* collectives (retry with a smaller batch), within the ``except``
      block or behind it: healthy; nothing happens. Skipped collectives are for collective_check to find.

    The kernel's OOM killer sends SIGKILL, which no guard in the rank can see: that is group_kill's.
    """

    name: ClassVar[str] = "oom_exit"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {86: "out of memory"}

    idle_s: float = 120.0

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Watch for out-of-memory errors that leave the script, and for those that it catches."""
        uncaught.on_uncaught(_decide, rank, priority=1)
        watch = _Watch(rank, self.idle_s)
        seen = watch.see_creation()
        movement.follow(watch)
        threading.Thread(target=watch.run, name="chaoskit oom_exit", daemon=True).start()
        return (f"idle={self.idle_s:g}s", f"notices={'creation,' if seen else ''}handlers")


def _decide(error: BaseException, where: uncaught.Where) -> uncaught.Ending | None:
    if not isinstance(error, Exception) or category(error) != "out_of_memory":
        return None
    caught = "was caught by the script, which then calls destroy_process_group()"
    how = {"main": "left the script", "thread": "left a thread", "destroy": caught}[where]
    hint = "free memory on this rank: a smaller batch, a higher limit, fewer loader workers"
    return uncaught.Ending("oom_exit", 86, f"{first_line(error)} {how}; {hint}", local=True)


def _mark(error: BaseException, moves: int) -> int:
    """Note ``moves`` at an error that has no such note yet; return its note."""
    with contextlib.suppress(AttributeError, TypeError):
        return int(vars(error).setdefault(_MARK, moves))
    return moves


def _is_in_a_collective(thread: int) -> bool:
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_globals.get("__name__") in _COLLECTIVES:
            return True
        frame = frame.f_back
    return False


def _has_peers() -> bool:
    """Without a process group of several ranks nobody waits for this one."""
    import torch.distributed as dist

    return dist.is_initialized() and dist.get_world_size() > 1


class _Watch:
    """Waits, after an out-of-memory error, for the rank to take part again."""

    def __init__(self, rank: GuardContext, idle_s: float) -> None:
        self._rank = rank
        self._idle_s = idle_s
        self._process = os.getpid()
        self._what = ""
        self._since = 0.0  # 0: there is nothing to wait for
        self._moves = 0  # steps and collectives entered
        self._phase_at = 0.0  # when one last began or ended
        self._allowed_until = 0.0
        self._made = threading.Event()
        self._poll_s = min(_POLL_S, idle_s / 10)

    def see_creation(self) -> bool:
        """Notice every torch.OutOfMemoryError when it is made; False where torch does not allow it."""
        import torch

        watch = self

        def noticed(error: RuntimeError, *args: Any) -> None:
            RuntimeError.__init__(error, *args)
            watch.seen(error)

        with contextlib.suppress(AttributeError, TypeError):
            torch.OutOfMemoryError.__init__ = noticed  # type: ignore[method-assign,assignment]
            return True
        return False

    def seen(self, error: BaseException) -> None:
        answered = _mark(error, self._moves) != self._moves
        if not answered and not self._since and os.getpid() == self._process:
            self._what = first_line(error)
            self._since = time.monotonic()
            self._made.set()

    def moved(self, what: What) -> None:
        """A step, or a collective entered or completed: the rank takes part. What was entered before the
        error may complete after it, and is no answer."""
        if what != "completed":
            self._moves += 1
        self._since = 0.0

    def allow(self, until: float) -> None:
        """A declared phase: no movement is due before ``until``; when it ends, the wait begins anew."""
        self._phase_at = time.monotonic()  # first: the waiting thread must not see a moment without either
        self._allowed_until = until

    def run(self) -> None:
        while True:
            since = self._since  # once: the rank may take part at any moment
            if since:
                allowed_until = self._allowed_until  # before the other: see allow()
                due = max(max(since, self._phase_at) + self._idle_s, allowed_until)
                self._made.clear()
                if time.monotonic() >= due and self._since and _has_peers():
                    self._end()
                self._made.wait(min(self._poll_s, max(0.01, due - time.monotonic())))
            else:
                self._made.wait(self._poll_s)
                self._look_at_handlers()

    def _look_at_handlers(self) -> None:
        """Is a thread inside an ``except`` block of an out-of-memory error? One that waits in a collective
        there takes part."""
        handled: dict[int, Any] = sys._current_exceptions()
        for thread, current in handled.items():
            error = current[1] if isinstance(current, tuple) else current  # a tuple before Python 3.12
            if isinstance(error, Exception) and category(error) == "out_of_memory":
                if _is_in_a_collective(thread):
                    _mark(error, -1)
                self.seen(error)

    def _end(self) -> None:
        message = (
            f"{self._what} was caught {self._idle_s:g} s ago (step {progress.steps()}), and the rank "
            "has taken part in nothing since; let the error end the rank, "
            "or go on with the collectives its peers wait in"
        )
        with contextlib.suppress(Exception):
            faulthandler.dump_traceback(file=2, all_threads=True)
        uncaught.end(self._rank, uncaught.Ending("oom_exit", 86, message, local=True))
