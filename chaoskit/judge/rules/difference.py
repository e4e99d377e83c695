"""What the difference between two ranks' operations is: its kind, its words, and the line it comes from.

What was skipped or added is told by what follows: by what both sides entered later, or by the rounds before
(:mod:`chaoskit.judge.habits`), as ranks that wait for each other enter nothing later.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from chaoskit.history import Entered
from chaoskit.judge import habits
from chaoskit.judge.job import Job, RankView
from chaoskit.judge.waits import Waits
from chaoskit.judge.wording import bare, called, fate, group_name, line, operation, same
from chaoskit.model import Kind, Operation

_BESIDE_TENSORS = {
    "all_reduce": "reduce operator",
    "broadcast": "root",
    "gather": "root",
    "reduce": "root or reduce operator",
    "reduce_scatter": "reduce operator",
    "scatter": "root",
}
"""What else ranks must agree on than tensors; it differs where these are alike and the fingerprint is not."""

_ROOTED = frozenset({"broadcast", "gather", "scatter"})
_ROOTS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Split:
    """The first position of a group where its ranks differ: position, and each rank's entry there."""

    group: str
    at: int
    entries: tuple[tuple[RankView, Entered], ...]
    sequences: tuple[tuple[RankView, tuple[Entered, ...]], ...]  # the aligned operations of each rank

    @property
    def completed(self) -> bool:
        """True when every rank that entered saw it complete (whatever came out)."""
        return all(e.seq in v.completed for v, e in self.entries)

    def of(self, event: Entered) -> tuple[RankView, tuple[Entered, ...]]:
        """Return the rank that entered ``event`` there, and all that it entered."""
        return next((v, ops) for v, ops in self.sequences if v.slot == event.slot)


@dataclass(frozen=True, slots=True)
class Difference:
    """``what`` follows the name of the rank that differs; ``at`` is where it parted from the others."""

    kind: Kind
    what: str
    at: Operation
    where: str
    evidence: tuple[str, ...] = ()


def between(job: Job, split: Split, odd: Entered, others: Entered) -> Difference:
    """Return how ``odd``, of a minority, differs from what the others entered in its place."""
    if odd.op != others.op or _is_other_call(split, odd, others):
        return _other_operation(job, split, odd, others)
    kind, how = Kind.OTHER_SHAPE, f"with {odd.shape} where the others have {others.shape}"
    if odd.dtype != others.dtype:
        kind, how = Kind.OTHER_DTYPE, f"with {odd.dtype} where the others have {others.dtype}"
    elif odd.shape != "" and _sizes(odd) == _sizes(others) and odd.op in _BESIDE_TENSORS:
        kind, how = Kind.OTHER_COLLECTIVE, f"with another {_BESIDE_TENSORS[odd.op]}{_roots(odd, others)}"
    return Difference(kind, f"entered {called(odd)} {how}{_step(split, odd)}", operation(odd), odd.site)


def _roots(odd: Entered, others: Entered) -> str:
    """Say both roots, where the fingerprints tell them."""
    mine, theirs = _root(odd), _root(others)
    return f" than the others: {mine}, not {theirs}" if mine is not None and theirs is not None else ""


def _root(event: Entered) -> int | None:
    """The root (a rank) with which the fingerprint is that of one tensor of this size: see
    :meth:`chaoskit.intercept.Call.key`, of which it is a hash. None where no root fits."""
    if event.op not in _ROOTED or len(sizes := _sizes(event)) != 1:
        return None
    for index, rank in enumerate(event.members or range(_ROOTS_MAX)):
        key = f"({event.op!r}, (({sizes[0]}, torch.{event.dtype}),), None, {index})"
        digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
        if int.from_bytes(digest, "big") == event.fingerprint:
            return rank
    return None


def _is_other_call(split: Split, odd: Entered, others: Entered) -> bool:
    """Is it the same operation of another line, as ranks entered it there at other times, too?"""
    if not odd.site or not others.site or odd.site == others.site:
        return False
    known = (e for _, ops in split.sequences for e in ops if e is not odd)
    return any((e.op, e.site, e.fingerprint) == (odd.op, odd.site, odd.fingerprint) for e in known)


def _step(split: Split, event: Entered) -> str:
    """In which step that was; nothing where the script has no steps: then all is in the first."""
    has_steps = any(e.step > 1 for _, ops in split.sequences for e in ops)
    return f" (step {event.step})" if event.step and has_steps else ""


def _sizes(event: Entered) -> list[int]:
    """Numbers of elements: what has to be equal of tensors, whatever their shapes."""
    return [math.prod(map(int, re.findall(r"\d+", shape))) for shape in event.shape.split(",") if shape]


def _other_operation(job: Job, split: Split, odd: Entered, others: Entered) -> Difference:
    rest = [v for v, e in split.entries if same(e, others) and v.slot != odd.slot]
    became = fate(rest, others, len(split.sequences), bare(others)) or f"the others entered {bare(others)}"
    if interleaved := threads(split, odd, others):
        what = f"entered {called(odd)}{_thread(odd)}{_between(split, odd)}"
        what = f"{what}: {interleaved}; {became}{_step(split, odd)}"
        return Difference(Kind.OTHER_COLLECTIVE, what, operation(odd), odd.site)
    if elsewhere := _in_other_group(job, odd):
        view, event = elsewhere
        what = f"entered {called(odd)} where rank {view.rank} entered {called(event)}; {became}"
        what = f"{what}{_step(split, odd)}"
        said = f"rank {view.rank} waits in {called(event)} for rank {split.of(odd)[0].rank}"
        return Difference(Kind.OTHER_GROUP, what, operation(event), odd.site, (said,))
    at = _parted_at(split, odd, others)
    mine, theirs = split.of(odd)[1][at], split.of(others)[1][at]
    match _how(split, odd, others, at):
        case "skipped":
            rank = split.of(odd)[0].rank
            waits = fate(rest, others, len(split.sequences)) if theirs is others else became
            what = f"skipped {called(theirs)}; {waits or became}; rank {rank} went on to {bare(odd)}"
            return Difference(
                Kind.OTHER_COLLECTIVE, f"{what}{_step(split, theirs)}", operation(theirs), theirs.site,
                _lines(mine, theirs)
                or (f"in the program {odd.op} follows {theirs.op}, as the other ranks have it",),
            )  # fmt: skip
        case "extra":
            what = f"entered an extra {called(mine)}; {became}{_step(split, mine)}"
            return Difference(Kind.OTHER_COLLECTIVE, what, operation(mine), mine.site, _lines(mine, theirs))
        case _:
            what = f"entered {called(odd)} where {became}{_step(split, odd)}"
            known = any(_is_like(e, mine) for v, ops in split.sequences if v.slot != odd.slot for e in ops)
            site = theirs.site if known else mine.site  # its own branch, or a call that it did not make
            return Difference(Kind.OTHER_COLLECTIVE, what, operation(theirs), site, _lines(mine, theirs))


def _lines(mine: Entered, theirs: Entered) -> tuple[str, ...]:
    """Say so where operations that look alike were entered from other lines already."""
    if mine.op != theirs.op:
        return ()
    return (f"its {bare(mine)} came from {line(mine.site)}, that of the others from {line(theirs.site)}",)


def _parted_at(split: Split, odd: Entered, others: Entered) -> int:
    """Return where they parted: further back, if operations that look alike came from other lines there."""
    mine, theirs = split.of(odd)[1], split.of(others)[1]
    at = split.at
    while at and mine[at - 1].site != theirs[at - 1].site and mine[at - 1].site and theirs[at - 1].site:
        at -= 1
    return at


def _how(split: Split, odd: Entered, others: Entered, at: int) -> str:
    """``skipped``, ``extra`` or, where it cannot be told, nothing."""
    mine, theirs = split.of(odd)[1], split.of(others)[1]
    once_more = at > 0 and _is_like(mine[at - 1], mine[at]) and not _is_like(theirs[at - 1], theirs[at])
    if once_more and mine[at - 1].step == mine[at].step == theirs[at].step != theirs[0].step:
        return "extra"  # it has not gone on to the next step
    skipped = at + 1 < len(theirs) and _is_like(theirs[at + 1], mine[at])
    extra = at + 1 < len(mine) and _is_like(mine[at + 1], theirs[at])
    if skipped != extra:
        return "skipped" if skipped else "extra"
    if skipped and extra:
        return ""  # the other way round
    if at + 1 >= len(theirs) and _follows(theirs, mine[at]):
        return "skipped"
    if once_more and mine[at - 1].step < mine[at].step:
        return "skipped"  # it has begun the next step, without what the others still do in this one
    return "extra" if once_more else ""


def _follows(theirs: Sequence[Entered], event: Entered) -> bool:
    """Has a call like ``event`` come behind one like the last of ``theirs`` before, as the rounds tell?"""
    usual = habits.following(theirs, len(theirs) - 1)
    if usual is not None and _is_like(usual, event):
        return True
    return any(_is_like(one, theirs[-1]) and _is_like(then, event) for one, then in pairwise(theirs))


def _is_like(one: Entered, other: Entered) -> bool:
    """Is this the same call of the program, as far as it shows?"""
    return one.op == other.op and (one.site == other.site or not one.site or not other.site)


def _in_other_group(job: Job, odd: Entered) -> tuple[RankView, Entered] | None:
    """Return the rank that waits in the same operation of another group for the one that entered ``odd``."""
    waits = Waits.of(job)
    for slot, op in waits.stuck.items():
        waits_for_it = any(m.slot == odd.slot for m in waits.missing[slot])
        if waits_for_it and op.op == odd.op and op.group != odd.group and waits.stuck.get(odd.slot) == odd:
            return job.view(slot), op
    return None


# ---------------------------------------------------------------- threads


def threads(split: Split, odd: Entered, others: Entered) -> str:
    """Say that two threads of a rank enter operations of this group, if that is where the ranks differ."""
    return f"two threads interleave on group {group_name(odd)}" if odd.thread != others.thread else ""


def _thread(event: Entered) -> str:
    if event.thread == 0:
        return " from its main thread"
    return " from a second thread" if event.thread == 1 else f" from thread {event.thread}"


def _between(split: Split, odd: Entered) -> str:
    """Between which operations of its other threads it was entered."""
    mine = [e for e in split.of(odd)[1] if e.thread != odd.thread]
    before = next((e for e in reversed(mine) if e.seq < odd.seq), None)
    after = next((e for e in mine if e.seq > odd.seq), None)
    if before is not None and after is not None:
        return f" between {bare(before)} and {bare(after)}"
    if before is not None:
        return f" after {bare(before)}"
    return f" before {bare(after)}" if after is not None else ""
