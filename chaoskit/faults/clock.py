"""A rank whose clock tells another time than its peers' clocks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault, check_duration, seconds_of
from chaoskit.model import RankSet, Span

_SECONDS: Final = ("time", "monotonic", "perf_counter")
_NANOSECONDS: Final = ("time_ns", "monotonic_ns", "perf_counter_ns")


@dataclass(frozen=True, slots=True)
class Clock(RankFault):
    """From its trigger on the script of this rank reads a clock that is ahead by `by`: the node's clock was
    set, or the rank was started earlier than its peers. A script that decides by the clock (stop before the
    time limit, save every 30 minutes) then decides differently on one rank.

    Moved are `time.time`, `time.monotonic`, `time.perf_counter` and their `_ns` forms, wherever the user's
    own code calls them (also where it has imported them by name). Libraries, torch and chaoskit keep the real
    time, and so does `datetime`, which does not ask Python's `time`.

    Example:

        faults:
          - clock: {rank: 1, by: 1h}
            when: {step: 5}
    """

    name: ClassVar[str] = "clock"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    phases: ClassVar[frozenset[str]] = frozenset({"before", "after"})
    any_thread: ClassVar[bool] = True
    releases: ClassVar[Literal["before"]] = "before"

    rank: RankSet
    by_s: Span | float

    def __post_init__(self) -> None:
        check_duration("by", self.by_s)

    def install(self, here: Moment) -> None:
        """Put the clocks in place now: what the script imports by name is bound before the fault fires."""
        if _ahead.installed:
            return
        _ahead.installed = True
        for name in _SECONDS:
            setattr(time, name, _moved(getattr(time, name), lambda: _ahead.by_s))
        for name in _NANOSECONDS:
            setattr(time, name, _moved(getattr(time, name), lambda: int(_ahead.by_s * 1e9)))

    def fire(self, here: Moment) -> None:
        _ahead.by_s += seconds_of(self.by_s)


class _Ahead:
    def __init__(self) -> None:
        self.installed = False
        self.by_s = 0.0


_ahead = _Ahead()


def _moved(real: Callable[[], Any], by: Callable[[], Any]) -> Callable[[], Any]:
    from chaoskit.intercept.where import is_users

    def clock() -> Any:
        if _ahead.by_s and is_users(sys._getframe(1).f_code.co_filename):
            return real() + by()
        return real()

    clock.__name__ = clock.__qualname__ = getattr(real, "__name__", "clock")
    return clock
