"""Starts real ranks, each with a keeper of its own, forked from this process, which has torch loaded. Nobody
acts when one of them ends: the launcher is a plain loop."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from guards.job import Ended, Job, start

from chaoskit import guards
from chaoskit.guards import sidecar
from chaoskit.guards.sidecar import Sidecar
from chaoskit.model import Guard
from chaoskit.sidecar.keeper import Watcher, keep

LONG = Sidecar(early_exit_wait_s=300, stopped_wait_s=300, gil_wait_s=300, sigterm_wait_s=300)
IN_ALL_S = 40.0
"""From the death or the detection to the end of the last keeper: far below what the script would wait, and
generous for a loaded machine. benchmarks/sidecar.py measures it."""


def start_kept(
    main: Callable[[], object],
    guard: Sidecar,
    *others: Guard,
    ranks: int = 3,
    env: Mapping[int, Mapping[str, str | None]] | None = None,
    stderr: int | None = None,
    watchers: Sequence[Watcher] = (),
) -> Job:
    """Start ``ranks`` keepers; the job's pids are theirs. ``stderr``: where all of them write; ``watchers``:
    what they have beside the guard."""

    def kept() -> None:
        if stderr is not None:
            os.dup2(stderr, 2)
        sidecar.kept_by(keep([guard.protection(), *watchers]))
        guards.install(guards=[guard, *others])
        main()
        sidecar.work_done()

    return start(kept, ranks=ranks, env=env)


def waiting_outside() -> None:
    """Form the group, then wait where no lost peer is noticed, as a rank under NCCL would."""
    train(0)
    time.sleep(600)


def formed(job: Job) -> list[int]:
    """Wait until every rank has formed the group; return their pids."""
    for slot in range(len(job.pids)):
        job.wait_for("formed", slot, 60)
    return [rank_of(keeper) for keeper in job.pids]


def wait_and_check(job: Job, ranks: list[int], since: float, within_s: float = IN_ALL_S) -> list[Ended]:
    """Wait for the end of the job; check that it came in time and left no rank."""
    ended = job.wait(within_s + 10)
    for pid in ranks:
        wait_for_end(pid)
    last = max(end.after_s for end in ended)
    assert last - (since - job.started) < within_s, [(e.code, e.after_s, e.err) for e in ended]
    return ended


def rank_of(keeper: int) -> int:
    """Return the pid of the rank that ``keeper`` keeps."""
    text = Path(f"/proc/{keeper}/task/{keeper}/children").read_text()
    return int(text.split()[0])


def wait_for_end(pid: int, limit_s: float = 40.0) -> None:
    """Wait until the process is gone or a zombie."""
    until = time.monotonic() + limit_s
    while state(pid) not in ("", "Z"):
        assert time.monotonic() < until, f"process {pid} is still {state(pid)}"
        time.sleep(0.005)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def train(steps: int, step_s: float = 0.02) -> None:
    """All-reduce ``steps`` times, saying so on stdout."""
    dist.init_process_group("gloo")
    value = torch.ones(4)
    dist.all_reduce(value)
    print("formed", flush=True)
    for _ in range(steps):
        time.sleep(step_s)
        dist.all_reduce(value)


def swallow_sigterm() -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)


def rank() -> int:
    return int(os.environ["RANK"])


def fill(writer: int) -> None:
    """Fill the pipe, through a description of one's own: that of ``writer`` still blocks."""
    own = os.open(f"/proc/self/fd/{writer}", os.O_WRONLY | os.O_NONBLOCK)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(own, b"x" * size)
    os.close(own)
