"""A process that is ended by a signal."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults._ending_signals import number_of
from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class Kill(RankFault):
    """The rank ends at once by a signal, as by the kernel's OOM killer, a crash in native code, or an
    operator. Nothing of the process runs any more: no handler, no `finally`, no `atexit`.

    On gloo the kernel closes the sockets and peers learn of it within milliseconds; under NCCL, or when
    the whole host is gone, they wait for the full timeout. Seen in NVIDIA/nccl#795.

    A handler that the script has for the signal is taken away first, and no core file is written.

    Example:

        faults:
          - kill: {rank: 1, signal: SIGKILL}
            when: {op: all_reduce, nth: 8, phase: during}
    """

    name: ClassVar[str] = "kill"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    ends_by_signal: ClassVar[bool] = True
    any_thread: ClassVar[bool] = True
    releases: ClassVar[Literal["at_end"]] = "at_end"

    rank: RankSet
    signal: str = "SIGKILL"

    def __post_init__(self) -> None:
        number_of(self.signal)

    def fire(self, here: Moment) -> None:
        number = number_of(self.signal)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has none; other threads cannot set one
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
