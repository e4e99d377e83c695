"""A DDP script with one bug of many, chosen by its argument. It knows nothing of chaoskit."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, AT = 12, 5


def train(bug: str) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    total = torch.zeros(4)
    for step in range(1, STEPS + 1):
        here = step == AT
        if bug == "straggler" and rank == 2:
            time.sleep(0.4)
        if bug == "hang" and here and rank == 1:
            time.sleep(3600)
        if bug == "raise" and here and rank == 1:
            raise ValueError("a bad batch")
        if bug == "leave" and here and rank == 1:
            os._exit(0)
        if bug == "quit" and here and rank == 1:
            sys.exit(0)
        if bug == "text" and here and rank == 2:
            sys.exit("cannot go on")
        if bug == "diverge" and here and rank == 3:
            with torch.no_grad():
                layers[0].weight.add_(0.5)
        optimizer.zero_grad()
        model(torch.randn(8, 32)).square().mean().backward()
        optimizer.step()
        if bug == "skip" and here and rank == 1:
            continue
        if bug == "alone" and here and rank == 0:
            dist.broadcast(total, 0)  # "only rank 0 saves"
        if bug == "decide" and rank == 2 and step >= AT:
            break
        try:
            if bug == "swallow" and here and rank == 1:
                raise RuntimeError("the loss is odd")
            dist.all_reduce(total)
        except RuntimeError:
            continue
        dist.barrier()
    if bug != "keep":
        dist.destroy_process_group()


def main() -> None:
    bug = sys.argv[1] if len(sys.argv) > 1 else "ok"
    if bug == "no-init":
        return
    if bug == "before-init" and os.environ["RANK"] == "1":
        raise FileNotFoundError("data.csv")
    if bug == "chdir":
        os.chdir("/")
    if bug == "binary":
        os.write(1, bytes(range(256)) * 64)
        os.write(2, b"\x1b]0;title\x07\xff\xfe\x00")
    train(bug)


if __name__ == "__main__":
    main()
