"""Which parameters differ between ranks, where their replicated state does, and on which rank each does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from chaoskit.history import ParameterSum
from chaoskit.judge.job import Job

Sides = tuple[tuple[int, ...], bool]
"""The ranks that differ from the majority, or all where there is none, and whether there is one."""


@dataclass(frozen=True, slots=True)
class Differing:
    """What is known of the parameters that differ: the first few of them, in the order of the model."""

    step: int
    final: bool  # of the checks at the end
    names: tuple[str, ...]
    sides: tuple[Sides, ...]  # of each of them
    count: int  # so many differ
    of: int

    @property
    def text(self) -> str:
        """The first one, and how many there are."""
        many = f"{self.count} of {self.of} parameters {'differs' if self.count == 1 else 'differ'}"
        return f"first in {self.names[0]} ({many})"

    @property
    def odd(self) -> Sides | None:
        """Who differs in some parameter, where a majority tells of each of those that differ."""
        if self.count > len(self.names) or not all(clear for _, clear in self.sides):
            return None
        return tuple(sorted({rank for ranks, _ in self.sides for rank in ranks})), True


def differing(job: Job, ordinal: int) -> Differing | None:
    """Return what was recorded of the parameters of what is replicated under this ordinal."""
    values: dict[str, dict[int, set[int]]] = {}
    told: ParameterSum | None = None
    for view in job.ranks:
        for event in (e for e in view.parameters if e.ordinal == ordinal):
            told = told or event
            values.setdefault(event.name, {}).setdefault(view.rank, set()).add(event.checksum)
    sides = {
        name: odd({rank: frozenset(sums) for rank, sums in by_rank.items()})
        for name, by_rank in values.items()
    }
    apart = {name: side for name, side in sides.items() if side is not None}
    if told is None or not apart:
        return None
    count = max(told.differing, len(apart))
    return Differing(told.step, told.final, tuple(apart), tuple(apart.values()), count, max(told.of, count))


def odd(seen: Mapping[int, frozenset[int]]) -> Sides | None:
    """Return the ranks that differ and whether a majority tells that they do; None where all are equal."""
    if frozenset.intersection(*seen.values()):
        return None
    counts = Counter(checksum for sums in seen.values() for checksum in sums)
    most, count = counts.most_common(1)[0]
    clear = count * 2 > len(seen)
    return tuple(sorted(rank for rank, sums in seen.items() if not clear or most not in sums)), clear
