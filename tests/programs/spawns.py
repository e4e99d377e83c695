"""Starts its own ranks with mp.spawn although a launcher has started it four times already."""

import os
import sys

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn


def work(rank: int, base: int) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": str(base)}
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


if __name__ == "__main__":
    spawn(work, (int(os.environ["MASTER_PORT"]) + 1 + int(os.environ["RANK"]),), nprocs=2)
    sys.exit(0)
