"""A step of a DDP model: forward, backward with an all_reduce per bucket, optimizer."""

# No `from __future__ import annotations`: torch compares the hints of a communication hook with types.
import math
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from chaoskit import progress
from chaoskit.timing.bench import Bench
from chaoskit.timing.messages import Prepare

_ITEM = torch.float32.itemsize
_TRIALS = 5
_BATCH_MAX = 1 << 16


class DDP(Bench):
    """``layers`` square layers, each a bucket; the batch makes it compute as long as was asked for."""

    def __init__(self, asked: Prepare) -> None:
        super().__init__(asked)
        self.batch = asked.batch
        self._width = max(1, math.isqrt(asked.bucket_bytes // _ITEM))

    def make(self) -> None:
        if not self.batch:
            self.batch = self._found_batch()
        self._models = [self._model(side) for side in range(len(self.groups))]
        self._optimizers = [torch.optim.SGD(model.parameters(), lr=1e-3) for model in self._models]
        self._sample = torch.zeros(self.batch, self._width, device=self.device)

    def call(self, side: int) -> None:
        self._optimizers[side].zero_grad()
        self._models[side](self._sample).sum().backward()
        self._optimizers[side].step()
        progress.step_done()

    def _layers(self) -> torch.nn.Sequential:
        layers = (torch.nn.Linear(self._width, self._width, bias=False) for _ in range(self.asked.layers))
        return torch.nn.Sequential(*layers).to(self.device)

    def _model(self, side: int) -> DistributedDataParallel:
        group = self.groups[side]
        bucket_mb = self._width**2 * _ITEM / 2**20
        model = DistributedDataParallel(self._layers(), process_group=group, bucket_cap_mb=bucket_mb)
        if self.asked.toggles[side] == "serialised-waits":
            model.register_comm_hook(group, _wait_at_once)
        return model

    def _found_batch(self) -> int:
        """Return the batch with which forward and backward take ``compute_ratio`` times as long as the
        all_reduces of all buckets alone; the same on all ranks."""
        gradient = torch.zeros(self._width**2, device=self.device)
        group = self.groups[0]
        talk_s = self.asked.layers * self._median_s(lambda: dist.all_reduce(gradient, group=group))
        layers, batch = self._layers(), 1
        while batch < _BATCH_MAX:
            sample = torch.zeros(batch, self._width, device=self.device)
            if self._median_s(lambda: layers(sample).sum().backward()) >= self.asked.compute_ratio * talk_s:  # noqa: B023
                break
            batch *= 2
        agreed = torch.tensor([batch], device=self.device)
        dist.all_reduce(agreed, op=dist.ReduceOp.MAX, group=group)
        return int(agreed.item())

    def _median_s(self, call: object) -> float:
        assert callable(call)
        taken = []
        for _ in range(_TRIALS):
            start = time.perf_counter()
            call()
            self.settle()
            taken.append(time.perf_counter() - start)
        return sorted(taken)[_TRIALS // 2]


def _wait_at_once(group: object, bucket: GradBucket) -> Future[torch.Tensor]:
    """Reduce a bucket and wait for it before the backward pass goes on."""
    assert isinstance(group, dist.ProcessGroup)
    buffer = bucket.buffer().div_(group.size())
    dist.all_reduce(buffer, group=group)
    done: Future[torch.Tensor] = Future()
    done.set_result(buffer)
    return done
