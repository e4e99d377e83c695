"""What every built-in program that is timed has in common: process groups per side, and a block of calls."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod

import torch
import torch.distributed as dist

from chaoskit.timing.messages import Block, Prepare


class Bench(ABC):
    """Sides of one comparison that are timed in the same ranks, each in a process group of its own.

    A second group is formed for each side, also where there is one only: the default group and another are
    not made by the same code.
    """

    batch: int = 0

    def __init__(self, asked: Prepare) -> None:
        self.asked = asked
        self.device = torch.device("cpu")
        self.groups: list[dist.ProcessGroup] = []
        self._since_barrier = [0 for _ in asked.toggles]

    def unfit(self) -> str:
        """Return why this cannot be timed here, or an empty text. Forms nothing yet."""
        return ""

    def prepare(self) -> None:
        """Form the groups and make what is timed."""
        if self.asked.backend == "nccl":
            index = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
            torch.cuda.set_device(index)
            self.device = torch.device("cuda", index)
        dist.init_process_group(self.asked.backend)
        for variables in self.asked.variables:
            self.groups.append(_formed(variables))
        self.make()

    def block(self, told: Block) -> float:
        """Return the seconds that the calls of a block take on this rank."""
        for _ in range(told.lead):
            self._call(told.side)
        self.settle()
        start = time.perf_counter()
        for _ in range(told.calls):
            self._call(told.side)
        self.settle()
        return time.perf_counter() - start

    def settle(self) -> None:
        """Wait for what a GPU still has to do."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _call(self, side: int) -> None:
        self.call(side)
        if self.asked.toggles[side] != "monitored-barrier":
            return
        self._since_barrier[side] += 1
        if self._since_barrier[side] >= self.asked.every:
            self._since_barrier[side] = 0
            dist.monitored_barrier(self.groups[side])

    @abstractmethod
    def make(self) -> None:
        """Make what is timed; the groups are there."""

    @abstractmethod
    def call(self, side: int) -> None:
        """One call of what is timed."""


def _formed(variables: tuple[tuple[str, str], ...]) -> dist.ProcessGroup:
    """Form a group of all ranks while ``variables`` are set."""
    before = {name: os.environ.get(name) for name, _ in variables}
    os.environ.update(variables)
    try:
        group = dist.new_group()
        assert isinstance(group, dist.ProcessGroup)
        dist.barrier(group)  # what is lazy about it happens now
        return group
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
