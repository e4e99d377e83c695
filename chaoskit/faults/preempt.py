"""A scheduler that takes the machine away: SIGTERM to all that a rank has started, later SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault, check_duration, seconds_of
from chaoskit.model import RankSet, Span

_SIGNALS: Final = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2")
_LOOK_S: Final = 0.05
# Outside of the group and of this interpreter: neither the signal nor a held GIL keeps it from its work. Gone
# as soon as the group is, so that nothing is left behind.
_SCHEDULER: Final = """\
looks=$2
while kill -0 "-$1" 2>/dev/null; do
  if [ "$looks" -le 0 ]; then kill -KILL "-$1" 2>/dev/null; exit 0; fi
  looks=$((looks - 1))
  sleep "$3"
done
"""


@dataclass(frozen=True, slots=True)
class Preempt(RankFault):
    """The rank's process group gets SIGTERM, and SIGKILL `grace` later, as Slurm does before a preemption and
    at the time limit. The data loader's workers are in that group: they die at once, and the main process
    fails at its next batch, before a handler's flag is ever looked at. Seen in
    KempnerInstitute/KempnerForge#177. On some of the ranks only, those that stop at their flag leave the
    others behind. Seen in Lightning-AI/pytorch-lightning#20825.

    The handler is the script's own; a script without one is ended by the signal. `signal` is one that a
    scheduler may be told to send first (`--signal=USR1@60`). Without `grace` no SIGKILL follows.

    Example:

        faults:
          - preempt: {rank: all, grace: 4s}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "preempt"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    phases: ClassVar[frozenset[str]] = frozenset({"before", "after"})
    ends_by_signal: ClassVar[bool] = True
    any_thread: ClassVar[bool] = True
    releases: ClassVar[Literal["before"]] = "before"

    rank: RankSet
    grace_s: Span | float | None = None
    signal: str = "SIGTERM"

    def __post_init__(self) -> None:
        if self.grace_s is not None:
            check_duration("grace", self.grace_s)
        if self.signal not in _SIGNALS:
            raise ValueError(f"signal must be one of {', '.join(_SIGNALS)}, is {self.signal!r}")

    def fire(self, here: Moment) -> None:
        group = os.getpgrp()
        if self.grace_s is not None:
            looks = max(1, round(seconds_of(self.grace_s) / _LOOK_S))
            subprocess.Popen(
                ["/bin/sh", "-c", _SCHEDULER, "scheduler", str(group), str(looks), str(_LOOK_S)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        os.killpg(group, signal.Signals[self.signal])
