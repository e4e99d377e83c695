"""A bare collective of some size, as nccl-tests counts sizes: all bytes that are gathered or scattered."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from chaoskit.timing.bench import Bench

OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
WINDOW = 8
"""How many operations are under way at a time where waiting is what is compared."""
_ITEM = torch.float32.itemsize


class Collectives(Bench):
    """``op`` on ``nbytes``. With ``windowed`` a call is a window of operations that are waited for at its
    end, or each by itself where waits are serialised."""

    def unfit(self) -> str:
        if self.asked.op == "all_to_all" and self.asked.backend == "gloo" and not _gloo_has_all_to_all():
            return "gloo has no all_to_all in this torch"
        return ""

    def make(self) -> None:
        world = dist.get_world_size()
        # Zeros: their sum is as cheap the thousandth time; and no denormals.
        numel = max(1, self.asked.nbytes // _ITEM)
        share = max(1, numel // world)
        self._issue = _issuer(self.asked.op, numel, share, world, self.device)

    def call(self, side: int) -> None:
        group = self.groups[side]
        if not self.asked.windowed:
            self._issue(group, False)
            return
        if self.asked.toggles[side] == "serialised-waits":
            for _ in range(WINDOW):
                work = self._issue(group, True)
                assert work is not None
                work.wait()
            return
        works = [self._issue(group, True) for _ in range(WINDOW)]
        for work in works:
            assert work is not None
            work.wait()


Issue = Callable[[dist.ProcessGroup, bool], "dist.Work | None"]


def _issuer(op: str, numel: int, share: int, world: int, device: torch.device) -> Issue:
    """Return what issues ``op`` once, on tensors made here."""
    whole = torch.zeros(share * world if op != "all_reduce" and op != "broadcast" else numel, device=device)
    part = torch.zeros(share, device=device)
    match op:
        case "all_reduce":
            return lambda group, later: dist.all_reduce(whole, group=group, async_op=later)
        case "broadcast":
            return lambda group, later: dist.broadcast(whole, 0, group=group, async_op=later)
        case "all_gather":
            return lambda group, later: dist.all_gather_into_tensor(whole, part, group=group, async_op=later)
        case "reduce_scatter":
            return lambda group, later: dist.reduce_scatter_tensor(part, whole, group=group, async_op=later)
        case "all_to_all":
            given = torch.zeros_like(whole)
            return lambda group, later: dist.all_to_all_single(whole, given, group=group, async_op=later)
        case _:
            raise ValueError(f"no collective {op!r}; there are {', '.join(OPS)}")


def _gloo_has_all_to_all() -> bool:
    return hasattr(dist.ProcessGroupGloo, "alltoall_base")
