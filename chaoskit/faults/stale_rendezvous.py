"""A file that an earlier job has met in, and has not removed."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from chaoskit.faults import _paths
from chaoskit.faults.family import Moment, RankFault
from chaoskit.model import SCRATCH, RankSet

_EARLIER_S = 60.0


@dataclass(frozen=True, slots=True)
class StaleRendezvous(RankFault):
    """An earlier job of as many ranks met in the file of a ``file://`` rendezvous and was killed, so the file
    is still there, with the addresses of processes that are gone. Ranks that read one before its new owner
    has written its own are refused; the others wait for them.

    There is such a job: a process beside each rank, on the same host, which forms a gloo group over the file
    and is killed. So `rank` has to be all of them.

    Example:

        faults:
          - stale-rendezvous: {rank: all, path: "{scratch}/rendezvous"}
            when: init
    """

    name: ClassVar[str] = "stale-rendezvous"
    triggers: ClassVar[frozenset[str]] = frozenset({"init"})

    rank: RankSet
    path: str = f"{SCRATCH}/rendezvous"

    def __post_init__(self) -> None:
        if self.rank != "all":
            raise ValueError("rank must be all, or the earlier job would never have formed")

    def fire(self, here: Moment) -> None:
        """Return when the earlier job is gone. Raises RuntimeError where it did not form."""
        path = _paths.entry(self.path, here.rank)
        pid = os.fork()
        if pid == 0:
            _be_of_an_earlier_job(path, here)
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise RuntimeError(f"no earlier job could meet in {self.path}; see the output above")
        _wait_for_all_to_be_gone(path, here)


def _wait_for_all_to_be_gone(path: Path, here: Moment) -> None:
    """Wait for the processes beside the other ranks: one that still lived would take connections."""
    launcher = os.getppid()  # the same for all ranks, and for no other job
    marks = [path.with_name(f"{path.name}.gone-{launcher}-{rank}") for rank in range(here.world_size)]
    marks[here.rank].touch()
    give_up = time.monotonic() + _EARLIER_S
    while not all(mark.exists() for mark in marks):
        if time.monotonic() > give_up:
            raise RuntimeError(f"the earlier job in {path} did not end on every rank")
        time.sleep(0.002)


def _be_of_an_earlier_job(path: Path, here: Moment) -> None:
    """Form a group as a script would, without anything that stands between the rank's script and torch."""
    try:
        from chaoskit import intercept  # it loads torch, which a fault as a value does not need

        intercept.uninstall()
        import torch.distributed as dist

        form = inspect.unwrap(dist.init_process_group)
        form(
            "gloo",
            init_method=f"file://{path}",
            rank=here.rank,
            world_size=here.world_size,
            timeout=timedelta(seconds=_EARLIER_S),
        )
        with contextlib.suppress(RuntimeError):
            dist.barrier()  # killed in the middle of its work, as others are gone already
        os.kill(os.getpid(), signal.SIGKILL)
    except BaseException as error:  # noqa: BLE001 - the rank's code must never go on here
        print(f"the earlier job: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)
