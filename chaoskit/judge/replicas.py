"""Do the ranks still hold alike what they have to hold alike? From checksums of their replicated state.

Only checksums of the same thing at the same moment are compared: after the same number of updates, or at the
end whatever numbers of them the ranks made. A rank may take several after one update (the last may be one of
the end); ranks differ there only if no checksum is common to all of them, so the ends are compared once more,
each only with the others. Each replicated thing has a history of its own.

A script may change its state after the last update by design: rank 0 loads the best of its checkpoints to
evaluate it. So a difference of rank 0 alone, at the end alone, is blamed on nobody. It is only told where the
ranks were equal just before the last update, and leaves the verdict open where the last check was earlier.

Where the checksums of single parameters were kept, these tell more: which ones differ, and at times, where
each of several ranks differs in another one, who does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaoskit.history import Replicated
from chaoskit.judge.job import Job, names
from chaoskit.judge.parameters import Differing, differing, odd

FINAL = -1
"""Stands for the step of the checks at the end: the ranks may have made different numbers of updates."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the replicas differ for the first time; ``odd`` are the minority, or all where none is clear."""

    step: int  # after so many updates; FINAL: at the end only
    odd: tuple[int, ...]
    clear: bool
    equal_at: int | None = None  # the last check before, at which all were equal
    ordinal: int = 0
    updates: int = 0  # as ``step``, also at the end
    parameters: Differing | None = None  # which of them, where that was kept

    @property
    def when(self) -> str:
        at = "at the end" if self.step == FINAL else f"after step {self.step}"
        return at if self.equal_at is None else f"{at} (equal still after step {self.equal_at})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """``checks``: moments at which all ranks were compared and were equal."""

    checks: int = 0
    difference: Difference | None = None
    note: str = ""
    doubt: str = ""  # why nothing can be said


Moment = tuple[bool, int, int]
"""Whether only checks of the end are in it (then the numbers of updates may differ), step, ordinal."""


Checks = Mapping[int, Sequence[Replicated]]
"""The checks of each rank."""


def compare(job: Job) -> Comparison:
    """Return how the replicas of this job compare."""
    checks: dict[int, tuple[Replicated, ...]] = {}
    for view in job.ranks:
        checks[view.rank] = (*checks.get(view.rank, ()), *view.replicated)
    found = compare_checks(checks, len(job.ranks))
    if found.difference is None:
        return found
    which = differing(job, found.difference.ordinal)
    difference = dataclasses.replace(found.difference, parameters=which)
    if which is not None and not difference.clear and which.odd is not None:
        difference = dataclasses.replace(difference, odd=which.odd[0], clear=True)
    return dataclasses.replace(found, difference=difference)


def compare_checks(checks: Checks, ranks: int) -> Comparison:
    """Return how the replicas of so many ranks compare, from their checks alone."""
    ends = _ends(checks)
    moments = _moments(checks, ends)
    equal, last = 0, dict[int, int]()
    excused = Comparison()
    for moment in sorted(moments):
        final, step, ordinal = moment
        sides = odd(moments[moment])
        if sides is None:
            counted = final and len(ends[ordinal]) == 1  # with the others after that update
            equal += not counted and len(moments[moment]) == ranks > 1
            if not final:
                last[ordinal] = step
            continue
        end = max(ends.get(ordinal, {-1}))
        at_end = final or step == end
        updates = end if final else step
        difference = Difference(FINAL if at_end else step, *sides, last.get(ordinal), ordinal, updates)
        if not (at_end and difference.equal_at is not None and _by_design(difference)):
            return Comparison(equal, difference)
        if not excused.doubt:
            excused = _changed_at_the_end(difference, end)
    return dataclasses.replace(excused, checks=equal)


def _moments(checks: Checks, ends: Mapping[int, set[int]]) -> dict[Moment, dict[int, frozenset[int]]]:
    """Return the checksums that each rank took of a moment, where two ranks or more did."""
    found: dict[Moment, dict[int, set[int]]] = {}
    for rank, taken in checks.items():
        for event in taken:
            at = [(True, 0, event.ordinal)] if event.final else []
            if not event.final or len(ends[event.ordinal]) == 1:
                at.append((False, event.step, event.ordinal))
            for moment in at:
                found.setdefault(moment, {}).setdefault(rank, set()).add(event.checksum)
    return {
        moment: {rank: frozenset(sums) for rank, sums in by_rank.items()}
        for moment, by_rank in found.items()
        if len(by_rank) > 1
    }


def _ends(checks: Checks) -> dict[int, set[int]]:
    """Return the numbers of updates at the end, by ordinal."""
    found: dict[int, set[int]] = {}
    for event in (e for taken in checks.values() for e in taken if e.final):
        found.setdefault(event.ordinal, set()).add(event.step)
    return found


def _by_design(difference: Difference) -> bool:
    return difference.odd == (0,) or (not difference.clear and difference.odd == (0, 1))


def _changed_at_the_end(difference: Difference, updates: int) -> Comparison:
    assert difference.equal_at is not None
    who = (
        f"{names(difference.odd)} alone differs" if difference.clear else "the replicas of both ranks differ"
    )
    said = f"{who} at the end, equal still after step {difference.equal_at} of {updates}"
    if updates - difference.equal_at <= 1:
        return Comparison(note=f"{said}: right if it loaded a checkpoint to evaluate it")
    why = "by a fault in the last steps, or by loading a checkpoint to evaluate it"
    return Comparison(doubt=f"{said}, {why}: cannot be told")
