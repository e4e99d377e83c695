"""Forks one rank from the warden and makes the child a fresh process: descriptors, signals, session.

What it then runs is ``chaoskit.rank.bootstrap.run_rank``. Standard library only.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from chaoskit.hosts.namespaces import Doorway
from chaoskit.launchers import kernel
from chaoskit.model import Plan
from chaoskit.rank.region import Channels

RankMain = Callable[[Plan, int, Channels], NoReturn]
_BROKEN_EXIT_CODE: Final = 70


def resolve(name: str) -> Callable[..., object]:
    """Return the function ``module:function``. Raises ImportError or AttributeError."""
    module, _, function = name.partition(":")
    found: Callable[..., object] = getattr(importlib.import_module(module), function)
    return found


@dataclass(frozen=True, slots=True)
class Child:
    """All that a forked child needs to become the rank in ``slot``.

    ``let_go`` makes the warden's objects forget their descriptors: they are closed here, and an object that
    closes its number again would hit a file of the script. ``open_files`` is the limit to go back to.
    """

    slot: int
    channels: Channels
    stdout: int
    stderr: int
    open_files: tuple[int, int]
    files_only: bool  # names are looked up in /etc/hosts alone
    let_go: Callable[[], None]
    door: Doorway | None = None  # the way onto its virtual host

    def fork(self, main: Callable[[], object]) -> int:
        """Return the pid of the new rank, which calls ``main``; only the warden returns."""
        warden = os.getpid()
        # A signal that came before the child has handlers of its own would be told to the warden as its own.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return pid
        try:
            self._become_rank(warden)
            main()
        except BaseException:  # noqa: BLE001 - the warden's code must never go on in a rank
            traceback.print_exc()
        finally:
            os._exit(_BROKEN_EXIT_CODE)

    def _become_rank(self, warden: int) -> None:
        kernel.signal_at_parents_end(signal.SIGKILL)
        if os.getppid() != warden:
            os._exit(_BROKEN_EXIT_CODE)
        os.setsid()
        kernel.set_name(f"rank {self.slot}")
        kernel.let_anyone_trace()
        reset_signals()
        self.let_go()
        if self.door is not None:
            self.door.enter()
        self._settle_descriptors()
        resource.setrlimit(resource.RLIMIT_NOFILE, self.open_files)
        if self.files_only:
            kernel.resolve_from_hosts_file_only()

    def _settle_descriptors(self) -> None:
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (self.stdout, 1), (self.stderr, 2)):
            os.dup2(source, target)
        kept = {0, 1, 2, self.channels.memfd, self.channels.doorbell, self.channels.release}
        kept.add(self.channels.orders)
        close_all_but(kept)


def close_all_but(kept: set[int]) -> None:
    """Close every descriptor of this process that is not in ``kept``."""
    low = 0
    highest = max(map(int, os.listdir("/proc/self/fd")))
    for end in [*sorted(fd for fd in kept if fd >= 0), highest + 1]:
        if low < end:  # Python 3.11 takes closerange(0, 0) for "all"
            os.closerange(low, end)
        low = end + 1


def reset_signals() -> None:
    """Give every signal the disposition that a fresh Python has, and block none."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        wanted = signal.SIG_IGN if number in (signal.SIGPIPE, signal.SIGXFSZ) else signal.SIG_DFL
        if number == signal.SIGINT:
            wanted = signal.default_int_handler  # type: ignore[assignment]
        if signal.getsignal(number) is not wanted:
            signal.signal(number, wanted)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())


def flush_output() -> None:
    """Keep what is still buffered here from being printed again by every rank."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
