"""Ranks whose copy of replicated state is not what the other ranks hold.

A difference of state is seldom what stopped a job that a rank has visibly left, so it is asked late, unless
a guard ended the job for it: then what the ranks did next is consequence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from chaoskit.judge import replicas
from chaoskit.judge.job import Job, names
from chaoskit.judge.parameters import Differing
from chaoskit.judge.replicas import FINAL, Difference
from chaoskit.model import Blame, Culprit, Kind

GUARD = "consistency"
_TOLD = 4
"""So many parameters get a sentence of their own."""


def guarded(job: Job) -> Blame | None:
    """Return the ranks that differ, where the guard that looks for this ended the job."""
    fired = [v.fired for v in job.ranks if v.fired is not None and v.fired.guard == GUARD]
    if not fired:
        return None
    first = min(fired, key=lambda f: f.t_s)
    said = " ".join(first.message.split())[:200]
    if found := find(job):
        return dataclasses.replace(found, evidence=(*found.evidence, f"guard {GUARD}: {said}"))
    guilty = sorted({f.slot for f in fired if f.local})
    ranks = [job.view(slot).rank for slot in guilty]
    culprits = tuple(Culprit("rank", str(r)) for r in sorted(set(ranks)))
    return Blame(culprits, Kind.DIVERGED, said, ambiguous=not guilty, evidence=(f"guard {GUARD}: {said}",))


def find(job: Job) -> Blame | None:
    """Return the ranks whose replica was the first to differ from the majority's."""
    difference = replicas.compare(job).difference
    if difference is None:
        return None
    culprits = tuple(Culprit("rank", str(r)) for r in difference.odd)
    said = f"{names(difference.odd)} {'holds' if len(difference.odd) == 1 else 'hold'}"
    where = f", {difference.parameters.text}" if difference.parameters is not None else ""
    if not _is_of(difference):
        where = ""  # what was kept is of a later check: told among the evidence
    reason = (
        f"{said} other parameters than the others {difference.when}{where}"
        if difference.clear
        else f"{said} different parameters {difference.when}{where}, and no majority tells who is right"
    )
    evidence = _evidence(difference, sorted({v.rank for v in job.ranks if v.replicated}))
    return Blame(culprits, Kind.DIVERGED, reason, ambiguous=not difference.clear, evidence=evidence)


def _is_of(difference: Difference) -> bool:
    """Is what is known of single parameters of the very check at which the ranks differ first?"""
    which = difference.parameters
    return which is None or which.step == difference.updates or (which.final and difference.step == FINAL)


def _evidence(difference: Difference, ranks: list[int]) -> tuple[str, ...]:
    which = difference.parameters
    told = ["which parameters differ was not kept"] if which is None else [*_of_parameters(which, ranks)]
    if which is not None and not _is_of(difference):
        told.append(f"{which.count} of {which.of} differ there; which ones did before was not kept")
    if difference.equal_at is not None:
        told.append(f"all ranks held the same after step {difference.equal_at}, the last check before")
    return tuple(told)


def _of_parameters(which: Differing, ranks: list[int]) -> Iterator[str]:
    when = "at the end" if which.final else f"after step {which.step}"
    for name, (odd, clear) in list(zip(which.names, which.sides, strict=True))[:_TOLD]:
        others = [rank for rank in ranks if rank not in odd]
        if clear and others:
            held = "holds" if len(odd) == 1 else "hold"
            yield f"{name}: {names(odd)} {held} other bits than {names(others)} {when}"
        else:
            yield f"{name}: {names(odd)} hold different bits {when}"
    if listed := ", ".join(which.names[_TOLD:]):
        more = which.count - len(which.names)
        yield f"{listed}{f' and {more} more' if more > 0 else ''} differ {when}, too"
