"""A rank whose Python stands still."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults.family import ANYWHERE, Moment, RankFault, check_duration, seconds_of
from chaoskit.model import RankSet, Span


@dataclass(frozen=True, slots=True)
class HoldGil(RankFault):
    """Native code holds the GIL for a while: no Python thread of the rank runs, so neither a watchdog
    thread, nor `threading.Timer`, nor a Python signal handler can act. Seen in horovod/horovod#3352,
    pytorch/pytorch#109074.

    The main thread waits in one C call that no signal cuts short.

    Example:

        faults:
          - hold-gil: {rank: 1, for: {timeout: collective, times: 3}}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "hold-gil"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    releases: ClassVar[Literal["before"]] = "before"

    rank: RankSet
    for_s: Span | float

    def __post_init__(self) -> None:
        check_duration("for", self.for_s)

    def fire(self, here: Moment) -> None:
        _hold(seconds_of(self.for_s))


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _hold(seconds: float) -> None:
    # PyDLL keeps the GIL. Sleeping calls end early on a signal, and between two of them another thread could
    # run; waiting for a mutex that is locked already does not. 64 zero bytes are an unlocked mutex.
    libc = ctypes.PyDLL(None)
    mutex = ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    if hasattr(libc, "pthread_mutex_clocklock"):
        until = _at(time.clock_gettime(time.CLOCK_MONOTONIC) + seconds)
        libc.pthread_mutex_clocklock(mutex, time.CLOCK_MONOTONIC, ctypes.byref(until))
    else:  # glibc before 2.30, musl
        until = _at(time.clock_gettime(time.CLOCK_REALTIME) + seconds)
        libc.pthread_mutex_timedlock(mutex, ctypes.byref(until))


def _at(moment_s: float) -> _Timespec:
    return _Timespec(int(moment_s), int(moment_s % 1 * 1e9))
