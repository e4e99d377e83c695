"""A process that stands still."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class Stop(RankFault):
    """The rank is stopped (SIGSTOP), all its threads: it is alive, keeps its sockets and its memory, and
    does nothing, as when a debugger or a container freezer holds it, or a GPU driver call never returns.
    Only SIGKILL from outside ends it; no guard inside the process can. Seen in NVIDIA/nccl#968.

    Example:

        faults:
          - stop: {rank: 3}
            when: {op: all_reduce, nth: 8, phase: during}
    """

    name: ClassVar[str] = "stop"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    releases: ClassVar[Literal["at_end"]] = "at_end"

    rank: RankSet

    def fire(self, here: Moment) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
