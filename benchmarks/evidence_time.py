"""Gathering the evidence of 64 ranks of one gloo job that hangs: all but one wait in an all_reduce.

Every round forks the ranks anew, as a rank tells of its flight recorder only once. Two are stopped. Budget:
2 s, of which the time of each source is printed too; they run at the same time.

    python benchmarks/evidence_time.py [ROUNDS [RANKS]]
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from _figures import Budget, end, figure, heading, note

from chaoskit.evidence import findings, process
from chaoskit.evidence.gather import Asked, gather
from chaoskit.rank import answering, region
from chaoskit.rank.program import SCRATCH_VARIABLE

BUDGET = Budget(2.0, at=100, meaning="64 ranks")
STOPPED = (1, 5)
BEFORE = 20
"""So many all_reduces are done before the one that hangs."""


def be_rank(slot: int, ranks: int, port: int, memfd: int, ready: int, folder: Path) -> None:
    os.setsid()
    # Reverse look-ups of c10d's logging take 5 s where DNS drops queries.
    getattr(ctypes.CDLL(None), "__nss_configure_lookup")(b"hosts", b"files")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    os.environ[SCRATCH_VARIABLE] = str(folder / "scratch")
    answering.start(region.Channels(memfd, slot), slot)
    dist.init_process_group("gloo", rank=slot, world_size=ranks, timeout=timedelta(minutes=10))
    for _ in range(BEFORE):
        dist.all_reduce(torch.ones(64))
    os.write(ready, b"r")
    if slot in STOPPED:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(torch.ones(64))


@contextmanager
def hung_ranks(ranks: int, folder: Path) -> Iterator[Asked]:
    memfd = os.memfd_create("evidence-time", os.MFD_CLOEXEC)
    os.truncate(memfd, ranks * region.REGION_BYTES)
    ready_r, ready_w = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    pids: dict[int, int] = {}
    try:
        for slot in range(ranks):
            pid = os.fork()
            if pid == 0:
                with contextlib.suppress(BaseException):
                    be_rank(slot, ranks, port, memfd, ready_w, folder)
                os._exit(1)
            pids[slot] = pid
        os.close(ready_w)
        for _ in range(ranks):
            assert os.read(ready_r, 1) == b"r"
        for slot in range(ranks):
            while process.look(pids[slot]).state != ("T" if slot in STOPPED else "S"):
                os.sched_yield()
        yield Asked(folder, pids, memfd, port)
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(ready_r)
        os.close(memfd)


def is_complete(folder: Path, slot: int) -> bool:
    """A time is worth something only if the evidence is there."""
    one = findings.read(folder / f"rank{slot}")
    peers = {s.peer for s in one.sockets if s.what == "peer"}
    recorder = bool(one.flight_recorder) != (slot in STOPPED)
    return bool(one.main and one.main.frames and one.process.threads and peers and recorder)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    torch.set_num_threads(1)
    heading(f"evidence of {ranks} ranks")
    taken: dict[str, list[float]] = defaultdict(list)
    incomplete = 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="chaoskit-benchmark-") as name:
            folder = Path(name)
            with hung_ranks(ranks, folder) as asked:
                found = gather(asked)
                lacking = [slot for slot in range(ranks) if not is_complete(folder, slot)]
            if lacking:
                incomplete += 1
                note(f"of {len(lacking)} ranks something is not there, as {found.missing[lacking[0]]}")
            for source, took in found.took_s.items():
                taken[source].append(took)
    whole = taken.pop("all")
    for source, times in sorted(taken.items()):
        figure(source, times)
    kept = figure("all of it", whole, BUDGET if ranks <= 64 else None)
    note(f"{len(whole)} rounds; {len(STOPPED)} of the ranks stopped")
    end([kept, not incomplete])


if __name__ == "__main__":
    main()
