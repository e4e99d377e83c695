"""A DDP script as a user would write it: it knows nothing of chaoskit.

With DIE_AT=STEP in the environment rank 1 ends itself by SIGKILL after that step, as the fault does.
"""

from __future__ import annotations

import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 20


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 16))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dies_at = int(os.environ.get("DIE_AT", "0")) if dist.get_rank() == 1 else 0
    for step in range(1, STEPS + 1):
        model(torch.randn(32, 256)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
