"""A collective that only one rank calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from chaoskit.faults.family import Moment, Proceed, RankFault
from chaoskit.model import RankSet

if TYPE_CHECKING:
    from torch.distributed import Work

    from chaoskit.intercept import Call


@dataclass(frozen=True, slots=True)
class Extra(RankFault):
    """The rank calls an operation once more than the others, with the same arguments, as a validation loop on
    rank 0 with a DDP-wrapped model does, or a rank with one batch more. It waits in the extra one until the
    others call something, and takes that for its partner. Seen in pytorch/pytorch#54059,
    argonne-lcf/dlio_benchmark#339.

    The extra call follows the nth at once and is waited for; it works on copies of the tensors.

    Example:

        faults:
          - extra: {rank: 2}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "extra"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    phases: ClassVar[frozenset[str]] = frozenset({"before"})
    replaces_call: ClassVar[bool] = True

    rank: RankSet

    def around(self, here: Moment, call: Call, proceed: Proceed) -> Work | None:
        work: Work | None = proceed()
        if work is not None:
            work.wait()
        here.reissue(call)
        return work
