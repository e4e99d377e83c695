"""A process that is ended while a call is under way."""

from __future__ import annotations

import ctypes
import os
import signal
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from chaoskit.faults.family import ANYWHERE, Moment, RankFault, check_duration, seconds_of
from chaoskit.model import RankSet, Span

_CLOCK_MONOTONIC: Final = 1
_SIGEVENT_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class KillLater(RankFault):
    """The rank ends by SIGKILL a moment (`delay`) after the fault has fired: in the middle of what it does
    next. So it dies *inside* calls that kill cannot be put into, as they return only when they are done: the
    forming of a communicator, `destroy_process_group`, an abort. The time of the fault is when it fires, not
    when the rank dies. Seen in pytorch/pytorch#88103 (nothing bounds the forming of a communicator).

    That the call is still under way then is for the scenario to see to: a peer that comes later than `delay`
    keeps it open. The kernel's own timer ends the rank: no Python, and no GIL, is needed.

    Example:

        faults:
          - kill-later: {rank: 1, delay: 500ms}
            when: {op: all_reduce, nth: 1}
    """

    name: ClassVar[str] = "kill-later"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    ends_by_signal: ClassVar[bool] = True
    any_thread: ClassVar[bool] = True
    releases: ClassVar[Literal["before"]] = "before"

    rank: RankSet
    delay_s: Span | float

    def __post_init__(self) -> None:
        check_duration("delay", self.delay_s)

    def fire(self, here: Moment) -> None:
        _kill_after(seconds_of(self.delay_s))


class _SigEvent(ctypes.Structure):
    """struct sigevent of the kernel; notify 0 sends ``signo`` to the process."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("padding", ctypes.c_char * (_SIGEVENT_BYTES - 16)),
    )


class _Spec(ctypes.Structure):
    """struct itimerspec: no interval, and when it is due."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "due_s", "due_ns"))


def _kill_after(delay_s: float) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "timer_create"):  # glibc before 2.34
        libc = ctypes.CDLL("librt.so.1", use_errno=True)
    timer = ctypes.c_void_p()
    event = _SigEvent(None, int(signal.SIGKILL), 0, b"")
    _check(libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)))
    due = _Spec(0, 0, int(delay_s), max(1, int(delay_s % 1 * 1e9)))
    _check(libc.timer_settime(timer, 0, ctypes.byref(due), None))


def _check(code: int) -> None:
    if code != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
