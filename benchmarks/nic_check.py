"""The guard nic_check: from the moment at which all ranks are there until all have heard that every pair can
connect. Budget: 64 ranks, 2 s.

The ranks are processes forked from this one, on one host, each with a store client, listeners and threads of
its own. Beside it: the CPU time of all ranks divided by the cores, which other work on the machine leaves
alone.

    python benchmarks/nic_check.py [RANKS…]
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import NoReturn

import torch
from _figures import Budget, cores, end, figure, heading, note
from torch._C._distributed_c10d import TCPStore

from chaoskit.guards.early_store import Place
from chaoskit.guards.nic_checking import Checking, Finding, Terms
from chaoskit.hosts import namespaces
from chaoskit.sidecar import processes

REPEATS = 5
BUDGET = Budget(2.0, at=99, meaning="all pairs")
TERMS = Terms(connect_s=10.0, wait_s=60.0)


@dataclass(frozen=True, slots=True)
class Check:
    """One check of all ranks."""

    took_s: float
    cpu_s: float
    fine: int


def check(ranks: int) -> Check:
    """Have ``ranks`` processes check at once; the server of the store is in the first, as in a job."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    ready_r, ready_w = os.pipe()
    go_r, go_w = os.pipe()
    told_r, told_w = os.pipe()
    pids = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            os.close(go_w)
            _be(rank, ranks, port, (ready_w, go_r, told_w))
        pids.append(pid)
    for fd in (ready_w, go_r, told_w):
        os.close(fd)
    for _ in range(ranks):
        assert os.read(ready_r, 1), "a rank ended before it was ready"
    begun = time.monotonic()
    os.close(go_w)
    lines = b""
    while more := os.read(told_r, 65536):
        lines += more
        if lines.count(b"\n") == ranks:
            break
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os.close(ready_r)
    os.close(told_r)
    rows = [line.split() for line in lines.decode().splitlines()]
    over = max(float(row[0]) for row in rows)
    return Check(
        over - begun, sum(float(row[1]) for row in rows) / cores(), sum(row[2] == "fine" for row in rows)
    )


def _be(rank: int, ranks: int, port: int, pipes: tuple[int, int, int]) -> NoReturn:
    """Be a rank: wait until all are there, check, say how long, and stay, as the job would go on."""
    processes.die_with_parent()
    ready, go, told = pipes
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # torch says of every client that it has no name
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    # The server exists before: it is part of any job, and not of the check.
    kept = (
        TCPStore("127.0.0.1", port, None, True, wait_for_workers=False, multi_tenant=True)
        if not rank
        else None
    )
    os.write(ready, b".")
    os.read(go, 1)
    cpu_s = time.process_time()
    place = Place("127.0.0.1", port, hosted_here=rank == 0)
    checking = Checking(TERMS, place, 1, rank, ranks, {"backend": "gloo"})
    checking.run()
    fine = "fine" if checking.finding == Finding() else "not"
    os.write(told, f"{time.monotonic()} {time.process_time() - cpu_s} {fine}\n".encode())
    time.sleep(60)
    os._exit(0 if kept else 1)


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [8, 32, 64]
    torch.set_num_threads(1)
    # As arms run: torch looks up a name for each connection to a store, and may wait 5 s for a name server.
    with contextlib.suppress(OSError):
        namespaces.own_network_namespace()
    heading("nic_check: all ranks there → all know that every pair can connect")
    kept = []
    for ranks in sizes:
        checks = [check(ranks) for _ in range(REPEATS)]
        kept.append(
            figure(f"{ranks:>3} ranks, {ranks * (ranks - 1) // 2} pairs", [c.took_s for c in checks], BUDGET)
        )
        figure(f"{ranks:>3} ranks: CPU time / cores", [c.cpu_s for c in checks])
        fine = min(c.fine for c in checks)
        if fine < ranks:
            note(f"{ranks - fine} ranks did not find it fine")
            kept.append(False)
    end(kept)


if __name__ == "__main__":
    main()
