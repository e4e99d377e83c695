"""Ranks whose copy of replicated state is not what the other ranks hold.

A difference of state is seldom what stopped a job that a rank has visibly left, so it is asked late, unless
a guard ended the job for it: then what the ranks did next is consequence.
"""

from __future__ import annotations

from chaoskit.judge import replicas
from chaoskit.judge.job import Job, names
from chaoskit.model import Blame, Culprit, Kind

GUARD = "consistency"


def guarded(job: Job) -> Blame | None:
    """Return the ranks that differ, where the guard that looks for this ended the job."""
    fired = [v.fired for v in job.ranks if v.fired is not None and v.fired.guard == GUARD]
    if not fired:
        return None
    if found := find(job):
        return found
    guilty = sorted({f.slot for f in fired if f.local})
    ranks = [job.view(slot).rank for slot in guilty]
    culprits = tuple(Culprit("rank", str(r)) for r in sorted(set(ranks)))
    first = min(fired, key=lambda f: f.t_s)
    return Blame(culprits, Kind.DIVERGED, " ".join(first.message.split())[:200], ambiguous=not guilty)


def find(job: Job) -> Blame | None:
    """Return the ranks whose replica was the first to differ from the majority's."""
    difference = replicas.compare(job).difference
    if difference is None:
        return None
    culprits = tuple(Culprit("rank", str(r)) for r in difference.odd)
    said = f"{names(difference.odd)} {'holds' if len(difference.odd) == 1 else 'hold'}"
    reason = (
        f"{said} other parameters than the others {difference.when}"
        if difference.clear
        else f"{said} different parameters {difference.when}, and no majority tells who is right"
    )
    return Blame(culprits, Kind.DIVERGED, reason, ambiguous=not difference.clear)
