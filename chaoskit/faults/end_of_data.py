"""A data loader that has fewer batches than those of the other ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults.family import Moment, RankFault
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class EndOfData(RankFault):
    """The rank's loader has no nth batch: its loop over the epoch ends while the others still train. As with
    an iterable dataset whose files do not divide by the number of ranks, or samples dropped on one rank only.
    What this rank does next (a validation, a barrier) meets the others' gradients. Seen in
    pytorch/pytorch#33148.

    The loop sees an ordinary end (`StopIteration`); the next epoch has all its batches again. A script that
    trains under `torch.distributed.algorithms.Join` is made for this and goes on.

    Example:

        faults:
          - end-of-data: {rank: 1}
            when: {loader: any, nth: 6}
    """

    name: ClassVar[str] = "end-of-data"
    triggers: ClassVar[frozenset[str]] = frozenset({"loader"})
    phases: ClassVar[frozenset[str]] = frozenset({"before"})

    rank: RankSet

    def fire(self, here: Moment) -> None:
        raise StopIteration
