"""Ranks that entered different operations, or the same one with another shape or dtype.

The operations of a group are aligned rank by rank, from the first one that all ranks' records
still hold. What a rank entered after an operation had failed on it is consequence and left out.
A majority decides who differs; without one (two ranks) the set is named and called ambiguous. How it is put
into words is in :mod:`chaoskit.judge.rules.difference`.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.history import Entered
from chaoskit.judge.job import P2P, Job, RankView, names
from chaoskit.judge.rules import difference
from chaoskit.judge.rules.difference import Split
from chaoskit.judge.wording import called, line, operation
from chaoskit.model import Blame, Culprit


def unfinished(job: Job) -> Blame | None:
    """Return the rank that differs in an operation that did not complete everywhere."""
    splits = [s for s in _splits(job) if not s.completed]
    return _judge(job, min(splits, key=_when)) if splits else None


def silent(job: Job) -> Blame | None:
    """Return the rank that differs though all completed (garbage that nobody noticed)."""
    splits = _splits(job)
    return _judge(job, min(splits, key=_when)) if splits else None


def garbled(job: Job) -> Blame | None:
    """Return the rank that differs in an operation that completed on all who entered it: with garbage."""
    splits = [s for s in _splits(job) if s.completed]
    return _judge(job, min(splits, key=_when)) if splits else None


def harmful(job: Job) -> Blame | None:
    """Return the rank that differs in an operation that completed, where a majority tells that it does."""
    found = garbled(job)
    return found if found is not None and not found.ambiguous else None


def _when(split: Split) -> float:
    return min(e.t_s for _, e in split.entries)


def _splits(job: Job) -> list[Split]:
    found = (_first_split(group, members, job) for group, members in job.groups)
    return [s for s in found if s is not None]


def _first_split(group: str, members: Sequence[int], job: Job) -> Split | None:
    aligned = _aligned(group, [v for v in job.ranks if v.rank in members])
    if len(aligned) < 2:
        return None
    for at in range(max(len(ops) for _, ops in aligned)):
        entries = tuple((view, ops[at]) for view, ops in aligned if at < len(ops))
        if len(entries) > 1 and len({_face(e) for _, e in entries}) > 1:
            return Split(group, at, entries, tuple((v, tuple(ops)) for v, ops in aligned))
    return None


def _aligned(group: str, views: list[RankView]) -> list[tuple[RankView, list[Entered]]]:
    """Return each rank's operations in the group, all starting at the same one."""
    rows = [(v, [e for e in v.unbroken if e.group == group and e.op not in P2P]) for v in views]
    rows = [(v, ops) for v, ops in rows if ops]
    if len(rows) < 2 or not any(v.lost for v, _ in rows):
        return rows
    shared = set.intersection(*({(e.op, e.nth) for e in ops} for _, ops in rows))
    start = [next((i for i, e in enumerate(ops) if (e.op, e.nth) in shared), len(ops)) for _, ops in rows]
    return [(v, ops[i:]) for (v, ops), i in zip(rows, start, strict=True) if ops[i:]]


def _face(event: Entered) -> tuple[str, int]:
    """What has to be equal between ranks; a fingerprint of 0 says nothing."""
    return event.op, event.fingerprint


def _judge(job: Job, split: Split) -> Blame:
    faces: dict[tuple[str, int], list[tuple[RankView, Entered]]] = {}
    for view, event in split.entries:
        faces.setdefault(_face(event), []).append((view, event))
    ordered = sorted(faces.values(), key=len)
    clear = len(ordered[-1]) > len(ordered[-2]) and len(ordered[-1]) * 2 > len(split.entries)
    if not clear:
        return _undecided(job, split, ordered)
    odd = [pair for members in ordered[:-1] for pair in members]
    found = difference.between(job, split, odd[0][1], ordered[-1][0][1])
    ranks = [v.rank for v, _ in odd]
    return Blame(
        _culprits(ranks),
        found.kind,
        f"{names(ranks)} {found.what}",
        found.where,
        at=found.at,
        likely=any(v.lost for v, _ in odd),
        evidence=(_told(ordered), *found.evidence),
    )


def _undecided(job: Job, split: Split, ordered: list[list[tuple[RankView, Entered]]]) -> Blame:
    pairs = sorted(split.entries, key=lambda pair: pair[0].rank)
    ranks = [v.rank for v, _ in pairs]
    first, second = ordered[0][0][1], ordered[-1][0][1]
    found = difference.between(job, split, first, second)
    said = "; ".join(
        f"rank {v.rank} entered {_with_shape(e, second if e is first else first)}" for v, e in pairs
    )
    threads = difference.threads(split, first, second)
    reason = f"{names(ranks)} differ and no majority tells who is right: {said}"
    return Blame(
        _culprits(ranks),
        found.kind,
        f"{reason}; {threads}" if threads else reason,
        first.site,
        ambiguous=True,
        at=operation(min((e for _, e in pairs), key=lambda e: e.t_s)),
        evidence=(_told(ordered), *found.evidence),
    )


def _culprits(ranks: Sequence[int]) -> tuple[Culprit, ...]:
    return tuple(Culprit("rank", str(r)) for r in sorted(set(ranks)))


def _with_shape(event: Entered, other: Entered) -> str:
    tensors = f" with {event.shape} {event.dtype}".rstrip() if event.op == other.op and event.shape else ""
    return f"{called(event)}{tensors}"


def _told(ordered: list[list[tuple[RankView, Entered]]]) -> str:
    """Who entered what, the majority first, with the lines."""
    said = []
    for pairs, others in zip(ordered[::-1], [ordered[0], *ordered[:0:-1]], strict=True):
        event = pairs[0][1]
        at = f" at {line(event.site)}" if event.site else ""
        said.append((names([v.rank for v, _ in pairs]), f"{_with_shape(event, others[0][1])}{at}"))
    if len({what for _, what in said}) == 1:  # tensors and lines are alike
        return f"{' and '.join(who for who, _ in said)} entered {said[0][1]}, not with the same arguments"
    return "; ".join(f"{who} entered {what}" for who, what in said)
