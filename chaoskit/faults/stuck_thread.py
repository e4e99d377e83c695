"""A thread of native code that does not come back."""

from __future__ import annotations

import ctypes
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet

WATCHDOG: Final = "pt_nccl_watchdg"
"""ProcessGroupNCCL::Watchdog::run calls itself so (torch 2.4 on; a thread's name has 15 letters)."""
_THREADS: Final = Path("/proc/self/task")
_NAME_LETTERS: Final = 15


@dataclass(frozen=True, slots=True)
class StuckThread(RankFault):
    """A thread of the rank stands still for good, the others go on. By default it is torch's NCCL watchdog,
    which gets stuck in a CUDA call or for want of the GIL: then nobody looks at timeouts any more, and what
    is left is its heartbeat monitor (`TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC`, 480 s; the new nccl of torch 2.15
    has none). Seen in snowflakedb/ArcticTraining#219.

    How: a signal whose handler is pause(2) is sent to that thread alone. It keeps whatever locks it has:
    a thread of Python that has the GIL at that moment takes the whole rank along. A rank without a thread
    of that name makes the arm inconclusive.

    Example:

        faults:
          - stuck-thread: {rank: 1, thread: pt_nccl_watchdg}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "stuck-thread"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    any_thread: ClassVar[bool] = True

    rank: RankSet
    thread: str = WATCHDOG

    def __post_init__(self) -> None:
        if not 0 < len(self.thread.encode()) <= _NAME_LETTERS:
            raise ValueError(f"thread must be a name of 1 to {_NAME_LETTERS} letters, is {self.thread!r}")

    def fire(self, here: Moment) -> None:
        names = _threads()
        meant = [tid for tid, name in names.items() if name == self.thread]
        if not meant:
            others = ", ".join(sorted(set(names.values())))
            here.broken(f"rank {here.rank} has no thread called {self.thread}; it has {others}")
            return
        _handle_by_pausing(_SIGNAL)
        for tid in meant:
            _send(tid, _SIGNAL)


_SIGNAL: Final = signal.SIGRTMIN + 11
"""The guards use SIGRTMIN+7 and +9, triggers +8, answers to the runner +10."""


class _SigAction(ctypes.Structure):
    """struct sigaction of the C library. While the handler runs, every signal is blocked in its thread."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def _threads() -> dict[int, str]:
    found = {}
    for folder in _THREADS.iterdir():
        try:
            found[int(folder.name)] = (folder / "comm").read_text(errors="replace").strip()
        except (OSError, ValueError):  # it has just ended
            continue
    return found


def _handle_by_pausing(number: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    action = _SigAction(
        ctypes.cast(libc.pause, ctypes.c_void_p), (ctypes.c_ubyte * 128)(*[255] * 128), 0, None
    )
    if libc.sigaction(number, ctypes.byref(action), None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _send(tid: int, number: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.tgkill(os.getpid(), tid, number) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
