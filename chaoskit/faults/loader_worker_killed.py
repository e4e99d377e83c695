"""A data-loading process that is ended by a signal."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.faults import _loader_workers
from chaoskit.faults._ending_signals import number_of
from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet

_LONGEST_WAIT_S: Final = 2.0
"""For the end of the worker, which may have a handler for the signal."""
_POLL_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class LoaderWorkerKilled(RankFault):
    """A worker process of the rank's DataLoader is ended by a signal, as by the kernel's OOM killer (a worker
    holds its share of the prefetched batches) or a crash in a decoder. torch then raises a `RuntimeError` in
    the rank's main thread, wherever that is: "DataLoader worker (pid …) is killed by signal". A script that
    catches it and goes on has fewer batches than its peers. Seen in pytorch/pytorch#8976.

    `worker` is its number in the newest DataLoader that has it. The rank needs one at the trigger.

    Example:

        faults:
          - loader-worker-killed: {rank: 1, worker: 0}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "loader-worker-killed"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    any_thread: ClassVar[bool] = True
    needs_loader: ClassVar[bool] = True

    rank: RankSet
    worker: int = 0
    signal: str = "SIGKILL"

    def __post_init__(self) -> None:
        _loader_workers.check_number(self.worker)
        number_of(self.signal)

    def install(self, here: Moment) -> None:
        _loader_workers.watch()

    def fire(self, here: Moment) -> None:
        worker = _loader_workers.pid(self.worker)
        os.kill(worker, number_of(self.signal))
        # The error comes out of here, not a little later out of the middle of something else.
        give_up = time.monotonic() + _LONGEST_WAIT_S
        while not _has_ended(worker) and time.monotonic() < give_up:
            time.sleep(_POLL_S)


def _has_ended(worker: int) -> bool:
    try:
        return os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
