"""Ranks that entered different operations, or the same one with another shape or dtype.

The operations of a group are aligned rank by rank, from the first one that all ranks' records
still hold. What a rank entered after an operation had failed on it is consequence and left out.
A majority decides who differs; without one (two ranks) the set is named and called ambiguous.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from chaoskit.history import Entered
from chaoskit.judge.job import P2P, Job, RankView, names
from chaoskit.model import Blame, Culprit, Kind

_BESIDE_TENSORS = {
    "all_reduce": "reduce operator",
    "broadcast": "root",
    "gather": "root",
    "reduce": "root or reduce operator",
    "reduce_scatter": "reduce operator",
    "scatter": "root",
}
"""What else ranks must agree on than tensors; it differs where these are alike and the fingerprint is not."""


@dataclass(frozen=True, slots=True)
class _Split:
    """The first position of a group where its ranks differ: position, and each rank's entry there."""

    group: str
    at: int
    entries: tuple[tuple[RankView, Entered], ...]
    sequences: tuple[tuple[int, tuple[Entered, ...]], ...]  # rank -> its aligned operations

    @property
    def completed(self) -> bool:
        """True when every rank that entered saw it complete (whatever came out)."""
        return all(e.seq in v.completed for v, e in self.entries)


def unfinished(job: Job) -> Blame | None:
    """Return the rank that differs in an operation that did not complete everywhere."""
    splits = [s for s in _splits(job) if not s.completed]
    return _judge(min(splits, key=_when)) if splits else None


def silent(job: Job) -> Blame | None:
    """Return the rank that differs though all completed (garbage that nobody noticed)."""
    splits = _splits(job)
    return _judge(min(splits, key=_when)) if splits else None


def garbled(job: Job) -> Blame | None:
    """Return the rank that differs in an operation that completed on all who entered it: with garbage."""
    splits = [s for s in _splits(job) if s.completed]
    return _judge(min(splits, key=_when)) if splits else None


def _when(split: _Split) -> float:
    return min(e.t_s for _, e in split.entries)


def _splits(job: Job) -> list[_Split]:
    found = (_first_split(group, members, job) for group, members in job.groups)
    return [s for s in found if s is not None]


def _first_split(group: str, members: Sequence[int], job: Job) -> _Split | None:
    aligned = _aligned(group, [v for v in job.ranks if v.rank in members])
    if len(aligned) < 2:
        return None
    for at in range(max(len(ops) for _, ops in aligned)):
        entries = tuple((view, ops[at]) for view, ops in aligned if at < len(ops))
        if len(entries) > 1 and len({_face(e) for _, e in entries}) > 1:
            return _Split(group, at, entries, tuple((v.rank, tuple(ops)) for v, ops in aligned))
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


def _judge(split: _Split) -> Blame:
    faces: dict[tuple[str, int], list[tuple[RankView, Entered]]] = {}
    for view, event in split.entries:
        faces.setdefault(_face(event), []).append((view, event))
    ordered = sorted(faces.values(), key=len)
    clear = len(ordered[-1]) > len(ordered[-2]) and len(ordered[-1]) * 2 > len(split.entries)
    odd = [pair for members in ordered[:-1] for pair in members] if clear else list(split.entries)
    others = ordered[-1][0][1]
    first = odd[0][1]
    kind, what = _difference(
        split, first, others if clear else ordered[0][0][1] if first is others else others
    )
    ranks = [v.rank for v, _ in odd]
    reason = (
        f"{names(ranks)} {what}"
        if clear
        else f"{names(ranks)} differ and no majority tells who is right: "
        + ("; ".join(f"rank {v.rank} entered {_name(e)}" for v, e in odd))
    )
    culprits = tuple(Culprit("rank", str(r)) for r in sorted(set(ranks)))
    return Blame(culprits, kind, reason, first.site, ambiguous=not clear)


def _difference(split: _Split, odd: Entered, others: Entered) -> tuple[Kind, str]:
    """Return the kind of the difference and the words for it."""
    step = f" (step {odd.step})" if odd.step else ""
    if odd.op == others.op and odd.dtype != others.dtype:
        return (
            Kind.OTHER_DTYPE,
            f"entered {_name(odd)} with {odd.dtype} where the others have {others.dtype}{step}",
        )
    alike = odd.shape != "" and _sizes(odd) == _sizes(others)
    if alike and odd.op == others.op and odd.op in _BESIDE_TENSORS:
        return Kind.OTHER_COLLECTIVE, f"entered {_name(odd)} with another {_BESIDE_TENSORS[odd.op]}{step}"
    if odd.op == others.op:
        return (
            Kind.OTHER_SHAPE,
            f"entered {_name(odd)} with {odd.shape} where the others have {others.shape}{step}",
        )
    return Kind.OTHER_COLLECTIVE, f"{_skip_or_extra(split, odd, others)}{step}"


def _sizes(event: Entered) -> list[int]:
    """Numbers of elements: what has to be equal of tensors, whatever their shapes."""
    return [math.prod(map(int, re.findall(r"\d+", shape))) for shape in event.shape.split(",") if shape]


def _skip_or_extra(split: _Split, odd: Entered, others: Entered) -> str:
    mine = next(ops for rank, ops in split.sequences if odd in ops)
    theirs = next(ops for rank, ops in split.sequences if others in ops)
    skipped = split.at + 1 < len(theirs) and theirs[split.at + 1].op == odd.op
    extra = split.at + 1 < len(mine) and mine[split.at + 1].op == others.op
    if skipped and not extra:
        return f"skipped {_name(others)} and went on to {_name(odd)}"
    if extra and not skipped:
        return f"entered an extra {_name(odd)} before {_name(others)}"
    return f"entered {_name(odd)} where the others entered {_name(others)}"


def _name(event: Entered) -> str:
    group = "" if event.group == "default" else f" of group {event.group}"
    return f"{event.op} #{event.nth}{group}"
