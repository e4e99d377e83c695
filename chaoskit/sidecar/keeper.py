"""The keeper: a process forks before it has loaded anything heavy; the child goes on and becomes the rank,
the parent stays as its keeper.

To the launcher the keeper is the rank: signals reach the rank once each, stdin, stdout and stderr are the
rank's, and the keeper ends as the rank ended (same exit code, or by the same signal). It decides nothing:
a :class:`Watcher` may.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from chaoskit.sidecar import processes
from chaoskit.sidecar.saying import say
from chaoskit.sidecar.terminal import Terminal

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

OnReady = Callable[[int], None]
"""Called with the events (of selectors) for which a descriptor is ready."""

_NOT_FORWARDED: Final = {
    signal.SIGCHLD, signal.SIGKILL, signal.SIGSTOP,  # the keeper's own; not to be caught
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT,
    signal.SIGSYS, signal.SIGPIPE, signal.SIGTTIN, signal.SIGTTOU, signal.SIGURG,
}  # fmt: skip
_UNENDABLE_S: Final = 2.0
"""How long after SIGKILL a process in the D state is waited for."""
_WALK_S: Final = 0.05


class Watcher:
    """Who is told what the rank does. Every method is called on the keeper's only thread, must be quick, and
    does nothing unless overridden. ``t`` is CLOCK_MONOTONIC in seconds. A watcher that raises is dropped."""

    def attach(self, keeper: Keeper) -> None:
        """In the keeper, right after the fork: keep ``keeper`` to watch descriptors or to end the rank."""

    def in_rank(self) -> None:
        """In the rank, right after the fork: close what is the keeper's."""

    def started(self, pid: int, t: float) -> None:
        """The rank runs as process ``pid``."""

    def stopped(self, t: float) -> None:
        """The rank was stopped (SIGSTOP, SIGTSTP)."""

    def continued(self, t: float) -> None:
        """The rank goes on (SIGCONT)."""

    def signalled(self, number: int, t: float) -> None:
        """A signal from outside was passed on to the rank."""

    def ending(self, exit_code: int, why: str, t: float) -> None:
        """A watcher has the rank ended (SIGTERM now, SIGKILL later); the keeper will exit with that code."""

    def ended(self, exit_code: int, t: float) -> None:
        """The rank ended; ``exit_code`` is negative for a signal."""

    def stays(self) -> bool:
        """After the rank has ended: must the keeper stay for this watcher's sake? Not for ever: it also does
        so for a rank that is lost."""
        return False

    def next_due(self) -> float | None:
        """When :meth:`tick` is to be called at the latest; None: not for time's sake."""
        return None

    def tick(self, t: float) -> None:
        """Called on every turn of the loop."""

    def closing(self) -> None:
        """The keeper ends now."""


def keep(watchers: Sequence[Watcher] = ()) -> int:
    """Split this process. Returns in the child, which is the rank from here on, with the keeper's pid; never
    returns in the parent.

    Call it before torch is imported and before any thread is started: the parent keeps what is loaded.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    keeper = os.getpid()
    leads = os.getpgrp() == keeper
    terminal = Terminal()
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    rank = os.fork()
    if rank != 0:
        with contextlib.suppress(OSError):  # the child has done it, or is gone
            os.setpgid(rank, rank)
        Keeper(rank, watchers, terminal, whole_group=leads).run(usual)
    os.setpgid(0, 0)
    processes.die_with_parent()
    if os.getppid() != keeper:
        os.kill(os.getpid(), signal.SIGKILL)
    terminal.give_to(os.getpid())
    terminal.close()
    signal.pthread_sigmask(signal.SIG_SETMASK, usual)
    for watcher in watchers:
        watcher.in_rank()
    return keeper


class Keeper:
    """The parent's side. Watchers get it in :meth:`Watcher.attach`."""

    def __init__(self, pid: int, watchers: Sequence[Watcher], terminal: Terminal, whole_group: bool) -> None:
        self.pid = pid
        self.exit_code: int | None = None  # of the rank, once it has ended
        self.is_stopped = False
        self.run_delay_s: float | None = None  # how long the rank had waited for a core; known at its end
        self._watchers = list(watchers)
        self._terminal = terminal
        # A launcher that gives each rank a process group of its own (torchrun) signals the group; a signal
        # then reaches the rank's own children too, as it would without a keeper.
        self._whole_group = whole_group
        self._selector = selectors.DefaultSelector()
        self._ends_with: int | None = None  # what the keeper exits with instead of the rank's own status
        self._kill_at: float | None = None  # when all descendants are killed, then again and again
        self._give_up_at = 0.0
        self._told_to_leave = False
        self._childless = False

    # ---- for watchers

    def watch(self, file: FileDescriptorLike, events: int, ready: OnReady) -> None:
        """Call ``ready`` whenever ``file`` is ready for ``events``; again to change either."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(file)
        self._selector.register(file, events, ready)

    def forget(self, file: FileDescriptorLike) -> None:
        """Watch it no more. Call it before ``file`` is closed."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(file)

    def signal_rank(self, number: int) -> None:
        """Send the rank's process group a signal."""
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def end(self, exit_code: int, grace_s: float, why: str) -> None:
        """End the rank and all its descendants: SIGTERM to its group, SIGKILL to everything ``grace_s``
        later; then exit with ``exit_code``, once no watcher stays. Once only."""
        if self._kill_at is not None:
            return
        self._ends_with = exit_code
        now = time.monotonic()
        self._kill_at = now if self.is_stopped else now + grace_s  # a stopped process gets no SIGTERM
        self._give_up_at = self._kill_at + _UNENDABLE_S
        self._tell(lambda w: w.ending(exit_code, why, now))
        self.signal_rank(signal.SIGTERM)

    @property
    def ending(self) -> bool:
        return self._kill_at is not None

    # ---- loop

    def run(self, usual_mask: Iterable[int]) -> NoReturn:
        """Keep the rank to its end, then end as it did."""
        self._set_up(usual_mask)
        now = time.monotonic()
        self._tell(lambda w: w.attach(self))
        self._tell(lambda w: w.started(self.pid, now))
        while not self._finished():
            self._turn()
        self._tell(lambda w: w.closing())
        end_like(self._ends_with if self._ends_with is not None else self.exit_code or 0)

    def _set_up(self, usual_mask: Iterable[int]) -> None:
        processes.set_name(processes.KEEPER_NAME)
        processes.adopt_orphans()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):  # the rank's alone: who waits for their end waits for the rank
            os.dup2(null, fd)
        os.close(null)
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in signal.valid_signals() - _NOT_FORWARDED | {signal.SIGCHLD}:
            signal.signal(number, _noted)
        for number in (signal.SIGTTIN, signal.SIGTTOU):
            signal.signal(number, signal.SIG_IGN)
        self._signals = reader
        self._selector.register(reader, selectors.EVENT_READ, self._hear)
        signal.pthread_sigmask(signal.SIG_SETMASK, usual_mask)
        self._terminal.give_to(self.pid)

    def _finished(self) -> bool:
        if self._kill_at is None:
            ended = self.exit_code is not None
        else:
            ended = self._childless or time.monotonic() > self._give_up_at
        return ended and (self._told_to_leave or not any(watcher.stays() for watcher in self._watchers))

    def _turn(self) -> None:
        for key, events in self._selector.select(self._timeout()):
            ready: OnReady = key.data
            try:
                ready(events)
            except Exception:  # noqa: BLE001 - a watcher's fault may not cost the rank its keeper
                self.forget(key.fd)
                say(f"keeper: {traceback.format_exc()}")
        self._reap()
        now = time.monotonic()
        self._tell(lambda w: w.tick(now))
        if self._kill_at is not None and now >= self._kill_at and not self._childless:
            processes.kill_descendants(os.getpid())
            self._kill_at = now + _WALK_S

    def _timeout(self) -> float | None:
        due = [t for watcher in self._watchers if (t := watcher.next_due()) is not None]
        if self._kill_at is not None and not self._childless:
            due.append(self._kill_at)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _hear(self, events: int) -> None:
        now = time.monotonic()
        for number in os.read(self._signals, 4096):
            if number != signal.SIGCHLD:
                self._pass_on(number, now)

    def _pass_on(self, number: int, now: float) -> None:
        if self.exit_code is not None or self.ending:
            self._told_to_leave |= number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        if self.exit_code is not None:
            return
        if number == signal.SIGCONT:
            self._terminal.give_to(self.pid)
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if self._whole_group else os.kill)(self.pid, number)
        self._tell(lambda w: w.signalled(number, now))

    def _reap(self) -> None:
        while True:
            try:
                self._note_run_delay()
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                return
            if pid == self.pid:
                self._seen(status, time.monotonic())

    def _note_run_delay(self) -> None:
        """A rank that has ended still tells it, until it is reaped."""
        if self.exit_code is None and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self.run_delay_s = processes.run_delay_s(self.pid)

    def _seen(self, status: int, now: float) -> None:
        if os.WIFSTOPPED(status):
            self.is_stopped = True
            self._tell(lambda w: w.stopped(now))
            self._terminal.stop_with_rank(os.WSTOPSIG(status))
        elif os.WIFCONTINUED(status):
            self.is_stopped = False
            self._tell(lambda w: w.continued(now))
        else:
            code = self.exit_code = os.waitstatus_to_exitcode(status)
            self._terminal.take_back()
            self._tell(lambda w: w.ended(code, now))

    def _tell(self, call: Callable[[Watcher], None]) -> None:
        for watcher in list(self._watchers):
            try:
                call(watcher)
            except Exception:  # noqa: BLE001 - a watcher's fault may not cost the rank its keeper
                self._watchers.remove(watcher)
                say(f"keeper: {traceback.format_exc()}")


def end_like(exit_code: int) -> NoReturn:
    """End this process with that exit code; by that signal where negative, without a core of its own."""
    if exit_code < 0:
        number = -exit_code
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no disposition
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        exit_code = 128 + number  # a signal that does not end a process
    os._exit(exit_code)


def _noted(number: int, frame: object) -> None:
    """The wake-up descriptor has the number already."""
