"""A data-loading process that stands still."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults import _loader_workers
from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault, check_duration, seconds_of
from chaoskit.model import RankSet, Span


@dataclass(frozen=True, slots=True)
class LoaderWorkerStuck(RankFault):
    """A worker process of the rank's DataLoader stops (SIGSTOP), as one that waits for a file server, or a
    lock that was taken when it was forked. The DataLoader waits for its batch without a limit (its `timeout`
    is 0), and the peers wait for the rank. Seen in pytorch/pytorch#1355.

    `worker` is its number in the newest DataLoader that has it. The rank needs one at the trigger. After
    `for` (a duration, a multiple of a timeout, or `forever`) the worker goes on. It is killed at the end of
    its rank, whatever ended that; a real one that waits for a file server may stay.

    Example:

        faults:
          - loader-worker-stuck: {rank: 1}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "loader-worker-stuck"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    any_thread: ClassVar[bool] = True
    needs_loader: ClassVar[bool] = True

    rank: RankSet
    worker: int = 0
    for_s: Span | float | Literal["forever"] = "forever"

    def __post_init__(self) -> None:
        _loader_workers.check_number(self.worker)
        if not isinstance(self.for_s, str):
            check_duration("for", self.for_s)

    def install(self, here: Moment) -> None:
        _loader_workers.watch()
        _loader_workers.end_with_rank()

    def fire(self, here: Moment) -> None:
        worker = _loader_workers.pid(self.worker)
        os.kill(worker, signal.SIGSTOP)
        if not isinstance(self.for_s, str):
            alarm = threading.Timer(seconds_of(self.for_s), _wake, (worker,))
            alarm.daemon = True
            alarm.start()


def _wake(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
