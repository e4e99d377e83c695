"""Stacks that a rank's faulthandler writes on a signal: the way where ptrace is forbidden.

The signal goes only to a process that has a handler for it, and only while the descriptor that faulthandler
writes to is still the file that was made for it: a script that has closed all descriptors may have a file of
its own at that number.
"""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from chaoskit.evidence import process
from chaoskit.evidence.findings import ThreadStack
from chaoskit.rank import answering
from chaoskit.rank.exchange import Exchange

WAIT_S: Final = 0.5
_QUIET_S: Final = 0.03
"""Nothing more has come for so long: it is all. A dump takes less than a millisecond."""
_TURN_S: Final = 0.005
_BYTES_MAX: Final = 1 << 20
_FRAMES_MAX: Final = 64
_HEAD: Final = re.compile(
    r"^(?:Current thread|Thread) 0x([0-9a-f]{1,16})(?: \[(.*)\])? \(most recent call first\)"
)
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d{1,9}|\?\?\?) in (.*)$')


class NotHad(Exception):
    """The stacks cannot be had this way; says why."""


def read(pid: int, exchange: Exchange, folder: Path, left_s: Callable[[], float]) -> tuple[ThreadStack, ...]:
    """Have the rank write its stacks into ``folder`` and return them. Raises NotHad."""
    path = folder / answering.STACKS_FILE
    _check(pid, exchange.stacks_fd, path)
    try:
        before = path.stat().st_size
        os.kill(pid, answering.SIGNAL)
    except OSError as error:
        raise NotHad(f"the rank cannot be signalled: {error.strerror}") from error
    threads = parse(_grown(path, before, left_s), exchange.main_thread, pid)
    if not threads:
        raise NotHad("faulthandler has written nothing")
    return threads


def _check(pid: int, fd: int, path: Path) -> None:
    """Raise NotHad unless the signal does what it is meant to do."""
    state = process.look(pid).state
    if state not in ("R", "S"):
        raise NotHad(f"faulthandler cannot run in state {state or 'gone'}")
    if fd < 0:
        raise NotHad("faulthandler was not set up")
    if f"SIGRTMIN+{answering.SIGNAL - process.REAL_TIME}" not in process.status(pid).caught:
        raise NotHad("the script has taken faulthandler's signal")
    try:
        there, ours = os.stat(f"/proc/{pid}/fd/{fd}"), path.stat()
    except PermissionError as error:
        raise NotHad("whether faulthandler's file is still open cannot be seen") from error
    except OSError as error:
        raise NotHad("the script has closed faulthandler's file") from error
    if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
        raise NotHad("the script has closed faulthandler's file")


def _grown(path: Path, before: int, left_s: Callable[[], float]) -> bytes:
    """Return what has been written from ``before`` on, once nothing more comes."""
    until = time.monotonic() + min(WAIT_S, left_s())
    size, since = before, time.monotonic()
    while (now := time.monotonic()) < until and not (size > before and now - since > _QUIET_S):
        select.select([], [], [], _TURN_S)
        if (newer := path.stat().st_size) != size:
            size, since = newer, time.monotonic()
    with path.open("rb") as file:
        file.seek(before)
        return file.read(_BYTES_MAX)


def parse(output: bytes, main_thread: int, pid: int) -> tuple[ThreadStack, ...]:
    """Return the threads in faulthandler's output. Its numbers are pthreads', so only the main thread's is
    known to the kernel too."""
    found: list[ThreadStack] = []
    frames: list[str] = []
    for line in output.decode("ascii", "replace").splitlines():
        if head := _HEAD.match(line):
            number = int(head[1], 16)
            main = number == main_thread
            name = head[2] or ("MainThread" if main else f"thread 0x{number:x}")
            frames = []
            found.append(ThreadStack(name, pid if main else 0, main))
        elif found and len(frames) < _FRAMES_MAX and (frame := _FRAME.match(line)):
            frames.append(f"{frame[3]} ({frame[1]}:{frame[2]})")
            found[-1] = ThreadStack(found[-1].name, found[-1].thread_id, found[-1].main, tuple(frames))
    return tuple(found)
