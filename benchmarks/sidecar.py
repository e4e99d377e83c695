"""The sidecar guard: from the death of a rank (or of its keeper) until every rank and every keeper is gone.

The launcher is this script and does nothing when one of them ends. Budget: 1 s.

    python benchmarks/sidecar.py [REPEATS]
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import torch
import torch.distributed as dist
from _figures import Budget, end, figure, heading

from chaoskit import guards
from chaoskit.guards import sidecar
from chaoskit.sidecar import processes
from chaoskit.sidecar.keeper import keep

BUDGET = Budget(1.0, at=99)
RANKS = 4


@dataclass(frozen=True, slots=True)
class Job:
    """Keepers and their ranks, by rank; the group has formed."""

    keepers: list[int]
    ranks: list[int]

    def kill(self, whom: Literal["rank", "keeper"], number: int) -> float:
        """Kill it and return the seconds until all are gone."""
        begun = time.monotonic()
        os.kill((self.ranks if whom == "rank" else self.keepers)[number], signal.SIGKILL)
        for keeper in self.keepers:
            os.waitpid(keeper, 0)
        while any(map(_runs, self.ranks)):
            time.sleep(0.001)
        return time.monotonic() - begun


def start() -> Job:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    reader, writer = os.pipe()
    keepers = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            _be(rank, port, writer)
        keepers.append(pid)
    os.close(writer)
    lines = b""
    while lines.count(b"\n") < RANKS:
        lines += os.read(reader, 1024)
    os.close(reader)
    told = sorted([int(word) for word in line.split()] for line in lines.decode().splitlines())
    return Job(keepers, [pid for _, pid in told])


def _be(rank: int, port: str, ready: int) -> NoReturn:
    """Be a kept rank that waits where it would never notice a lost peer by itself."""
    processes.die_with_parent()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=port
    )
    guard = sidecar.Sidecar()
    sidecar.kept_by(keep([guard.protection()]))
    guards.install(guards=[guard])
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    os.write(ready, f"{rank} {os.getpid()}\n".encode())
    time.sleep(60)
    os._exit(1)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    torch.set_num_threads(1)
    heading(f"sidecar: one of {RANKS} is killed → all ranks and keepers gone")
    kept = []
    for whom in ("rank", "keeper"):
        for number in (0, RANKS - 1):
            measured = [start().kill(whom, number) for _ in range(repeats)]
            kept.append(
                figure(f"{whom} {number}{' (all report to it)' if not number else ''}", measured, BUDGET)
            )
    end(kept)


if __name__ == "__main__":
    main()
