"""What the articles do around init_process_group, to the letter. Use timeouts and census."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

from chaoskit.guards import torch_hooks
from chaoskit.guards.context import GuardContext, number, say
from chaoskit.model import Guard


@dataclass(frozen=True, slots=True)
class FolkloreInit(Guard):
    """``timeout=`` to ``init_process_group``; rank, local_rank and world size printed right after; then a
    small collective that checks that all ranks agree.

    The timeout is not inherited by ``new_group`` and ``monitored_barrier``; and the check comes after the
    forming, so a missing rank, a duplicate or a wrong address never reaches it.
    """

    name: ClassVar[str] = "folklore_init"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {
        1: "the ranks do not agree on the world size, or claim a rank twice"
    }

    timeout_s: float = 600.0

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Stand around ``init_process_group``."""
        torch_hooks.around_init(self)
        return (f"timeout={self.timeout_s:g}s",)

    def before_init(self, given: dict[str, Any]) -> None:
        """Fill the timeout."""
        if given.get("timeout") is None:
            given["timeout"] = timedelta(seconds=self.timeout_s)

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        """Print who this is, and compare."""
        if error is not None:
            return
        import torch
        import torch.distributed as dist

        local_rank, world_size = number("LOCAL_RANK"), dist.get_world_size()
        say(f"[init] rank={dist.get_rank()} local_rank={local_rank} world_size={world_size}")
        device = "cpu" if dist.get_backend() == "gloo" else f"cuda:{max(local_rank, 0)}"
        mine = torch.tensor([dist.get_rank(), world_size, number("WORLD_SIZE")], device=device)
        everyone = [torch.zeros_like(mine) for _ in range(world_size)]
        dist.all_gather(everyone, mine)
        ranks = sorted(int(their[0]) for their in everyone)
        sizes = {(int(their[1]), int(their[2])) for their in everyone}
        if ranks != list(range(world_size)) or len(sizes) > 1:
            raise RuntimeError(
                f"ranks do not agree: ranks {ranks}, world sizes {sorted(sizes)} (pid {os.getpid()})"
            )
