"""The job of arm_time.py: ddp-train under any launcher; rank 1 is ended by SIGKILL when step 5 is done.

Run as a script it is what torchrun starts; with the argument `spawn`, it starts itself with mp.spawn.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys

RANKS = 4
DIES = 1
STEP = 5


def train() -> None:
    """One rank. Its identity comes from the environment, as under torchrun."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from chaoskit import workloads

    steps = itertools.count(1)

    def die(*_: object) -> None:
        if next(steps) == STEP and os.environ["RANK"] == str(DIES):
            os.kill(os.getpid(), signal.SIGKILL)

    register_optimizer_step_post_hook(die)
    program = workloads.get("ddp-train")
    assert program is not None
    program.run({"backend": "gloo"})


def spawned(rank: int, port: int) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    train()


def spawn() -> None:
    from torch.multiprocessing.spawn import spawn as start

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    start(spawned, (port,), nprocs=RANKS)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    spawn() if sys.argv[1:] == ["spawn"] else train()
