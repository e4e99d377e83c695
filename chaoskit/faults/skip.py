"""A collective that one rank does not take part in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from chaoskit.faults.family import Moment, Proceed, RankFault
from chaoskit.model import RankSet

if TYPE_CHECKING:
    from torch.distributed import Work

    from chaoskit.intercept import Call


@dataclass(frozen=True, slots=True)
class Skip(RankFault):
    """The rank leaves out one call and goes on, as with `if rank == 0:` around a barrier, or an expert
    without tokens. From then on it is one operation ahead of the others: they hang, or, if the next
    operation looks alike, compute with each other's data. Seen in pytorch/pytorch#138322,
    deepspeedai/DeepSpeed#5066.

    The call returns at once, with its tensors as they were.

    Example:

        faults:
          - skip: {rank: 0}
            when: {op: barrier, nth: 3}
    """

    name: ClassVar[str] = "skip"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    phases: ClassVar[frozenset[str]] = frozenset({"before"})
    replaces_call: ClassVar[bool] = True

    rank: RankSet

    def around(self, here: Moment, call: Call, proceed: Proceed) -> Work | None:
        from chaoskit.intercept import finished

        return finished(call)
