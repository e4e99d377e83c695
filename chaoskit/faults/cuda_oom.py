"""GPU memory that really does not suffice on one rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from chaoskit.faults._out_of_memory import Handler, give_up
from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet

_SPARE_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class CudaOom(RankFault):
    """The rank asks torch's CUDA allocator for more than it may have, and gets the allocator's own
    `torch.OutOfMemoryError`: its batch was the longest one. The others wait for it.

    How: `torch.cuda.set_per_process_memory_fraction` limits the rank to what it has and a little more, so
    nothing of the GPU is taken from anybody else; then it asks for more than that. The limit is lifted again
    (to the one that the script had set, if any), as after an error the memory of the batch is free again.

    `handler` says who catches it, as with the fault oom, which needs no GPU: `none`, `destroy-and-exit`,
    `keep-alive`. Seen in saforem2/ezpz#245.

    Example:

        faults:
          - cuda-oom: {rank: 1, handler: none}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "cuda-oom"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    releases: ClassVar[Literal["itself"]] = "itself"
    needs: ClassVar[tuple[str, ...]] = ("nccl",)

    rank: RankSet
    handler: Handler = "none"

    def fire(self, here: Moment) -> None:
        if self.handler != "none":
            # The handler may stay for long; a peer that were held meanwhile would look guilty.
            here.release()
        try:
            _ask_for_too_much()
        except RuntimeError as error:
            give_up(self.handler, error)
        here.broken("the CUDA allocator gave more memory than it was limited to")


def _ask_for_too_much() -> None:
    import torch

    device = torch.cuda.current_device()
    before = _fraction(device)
    allowed = torch.cuda.memory_reserved(device) + _SPARE_BYTES
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, allowed / total), device)
    try:
        torch.empty(allowed + _SPARE_BYTES, dtype=torch.uint8, device=device)
    finally:
        torch.cuda.set_per_process_memory_fraction(before, device)


def _fraction(device: int) -> float:
    """The limit that the script has set; torch tells it from 2.7 on."""
    import torch

    get = getattr(torch.cuda.memory, "get_per_process_memory_fraction", None)
    return float(get(device)) if callable(get) else 1.0
