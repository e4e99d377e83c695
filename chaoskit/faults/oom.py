"""GPU memory that does not suffice on one rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults._out_of_memory import Handler, give_up
from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet

MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
    "1.30 GiB is free. Including non-PyTorch memory, this process has 77.80 GiB memory in use. Of the "
    "allocated memory 75.21 GiB is allocated by PyTorch, and 1.12 GiB is reserved by PyTorch but "
    "unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


@dataclass(frozen=True, slots=True)
class Oom(RankFault):
    """The rank gets `torch.OutOfMemoryError`, with the text that CUDA's allocator gives, because its own
    batch was the longest one; the others wait for it.

    `handler` says who catches it: `none`, the script does not; `destroy-and-exit`, the widely copied
    handler does (`destroy_process_group()`, then `os._exit(1)`; the first may block for the whole timeout);
    `keep-alive`, one that prints a warning and then keeps the process alive without taking part.
    Seen in saforem2/ezpz#245.

    Example:

        faults:
          - oom: {rank: 1, handler: destroy-and-exit}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "oom"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    releases: ClassVar[Literal["itself"]] = "itself"

    rank: RankSet
    handler: Handler = "none"

    def fire(self, here: Moment) -> None:
        import torch

        if self.handler != "none":
            # The handler may stay for long; a peer that were held meanwhile would look guilty.
            here.release()
        try:
            raise torch.OutOfMemoryError(MESSAGE)
        except RuntimeError as error:
            give_up(self.handler, error)
