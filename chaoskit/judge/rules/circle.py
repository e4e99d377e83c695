"""Ranks that wait for each other in a circle: each sits in an operation that another one is missing in.

Who of them is to blame is asked in this order:

1. in one process group most of them are in the same operation, and the rest, all members of it too, are in
   another group's: the rest took the wrong one;
2. one of them departed from what it had done in each round before, and no other rank did likewise
   (:mod:`chaoskit.judge.habits`): likely that one;
3. the circle is of sends and receives only: then all of them are in it by the program's own order, nobody
   alone is guilty, and naming all of them is exact, not ambiguous;
4. else all of them are named, ambiguous.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from chaoskit.history import Entered
from chaoskit.judge import habits
from chaoskit.judge.habits import Departure
from chaoskit.judge.job import P2P, Job, RankView, names
from chaoskit.judge.waits import Waits
from chaoskit.judge.wording import called, line, operation
from chaoskit.model import Blame, Culprit, Kind, Operation

TOLD_MAX = 8
"""So many ranks of a circle are told one by one."""


def blame(job: Job, waits: Waits, slots: list[int]) -> Blame:
    """Return who brought the circle of ``slots`` about."""
    parted = habits.own(job, [job.view(s) for s in slots])
    one = parted[0] if len({d.view.slot for d in parted}) == 1 else None
    if found := other_group(job, waits):
        mine = one is not None and found.culprits == (Culprit("rank", str(one.view.rank)),)
        if one is None or not mine or one.how == "other_group":
            return found
        return dataclasses.replace(_departed(job, waits, slots, one), likely=False)  # both say so
    return _departed(job, waits, slots, one) if one is not None else _all(job, waits, slots)


def other_group(job: Job, waits: Waits) -> Blame | None:
    """Return the minority that is in another group's operation than the others, where all belong to both."""
    for slots, op in _crowds(job, waits):
        rest = [v for v in waits.missing[slots[0]] if v.slot in waits.stuck]
        away = [v for v in rest if _is_away(job, waits, v, slots)]
        if not away or len(away) < len(waits.missing[slots[0]]) or len(away) >= len(slots):
            continue
        first = waits.stuck[away[0].slot]
        if any((waits.stuck[v.slot].op, waits.stuck[v.slot].group) != (first.op, first.group) for v in away):
            continue
        return _took(job, away, first, slots, op)
    return None


def _crowds(job: Job, waits: Waits) -> list[tuple[list[int], Entered]]:
    """The slots that sit in one collective, for each of those, most first."""
    counts = Counter(
        (op.group, op.members, op.op, op.nth)
        for slot, op in waits.stuck.items()
        if op.op not in P2P and waits.missing[slot]
    )
    found = []
    for place, _ in counts.most_common():
        slots = [s for s, e in waits.stuck.items() if (e.group, e.members, e.op, e.nth) == place]
        found.append((slots, waits.stuck[slots[0]]))
    return found


def _is_away(job: Job, waits: Waits, view: RankView, crowd: list[int]) -> bool:
    """Is this rank in an operation of another group, in which nobody but its like can ever join it?

    All of the crowd it keeps waiting have to be members of that group, and be all whom it waits for there.
    """
    own = waits.stuck[view.slot]
    if own.op in P2P:
        return False
    wanted = {v.slot for v in waits.missing[view.slot]}
    ranks = own.members or tuple(v.rank for v in job.ranks)
    within = [s for s in crowd if job.view(s).rank in ranks]
    other = own.group != waits.stuck[crowd[0]].group
    return other and bool(wanted) and len(within) == len(crowd) and wanted <= set(within)


def _took(job: Job, away: list[RankView], entered: Entered, crowd: list[int], op: Entered) -> Blame:
    who, others = names([v.rank for v in away]), names([job.view(s).rank for s in crowd])
    alone = len(crowd) + len(away) == len(job.ranks)
    reason = (
        f"{who} entered {called(entered)} where {'the others' if alone else others} entered {called(op)}; "
        "they wait for each other"
    )
    return Blame(
        tuple(Culprit("rank", str(r)) for r in sorted({v.rank for v in away})),
        Kind.OTHER_GROUP if entered.op == op.op else Kind.OTHER_COLLECTIVE,
        reason,
        entered.site,
        at=operation(op),
        evidence=(
            f"{others} entered {called(op)} and wait for {who}",
            f"{who} entered {called(entered)} at {line(entered.site)}, which none of them has entered",
        ),
    )


def _departed(job: Job, waits: Waits, slots: list[int], it: Departure) -> Blame:
    rank = it.view.rank
    usual = Operation(it.usual.op, it.usual.group, it.nth)
    missing = it.usual.op in P2P and it.how == "skipped"
    only_p2p = all(waits.stuck[s].op in P2P for s in slots)
    if it.how == "other_group":
        kind = Kind.OTHER_GROUP
    elif only_p2p:
        kind = Kind.DEADLOCK
    else:
        kind = Kind.NEVER_ENTERED if missing else Kind.OTHER_COLLECTIVE
    extra = it.how == "extra"
    told, who = _told(job, waits, slots), names([job.view(s).rank for s in slots])
    at = operation(it.entered) if extra else usual
    return Blame(
        (Culprit("rank", str(rank)),),
        kind,
        f"rank {rank} {_did(it, only_p2p)}; {who} wait for each other: {told}",
        it.usual.site if it.how == "skipped" else it.entered.site,
        at=at,
        likely=True,
        evidence=(
            told,
            f"in the rounds before, rank {rank} had entered {_step(it.usual)} there, this time "
            f"{called(it.entered)}",
            "no other rank departed from its rounds in that way",
        ),
    )


def _did(it: Departure, turned: bool) -> str:
    usual = f"{it.usual.op} #{it.nth}" + called(it.usual).removeprefix(f"{it.usual.op} #{it.usual.nth}")
    match it.how:
        case "skipped" if not turned:  # of what it waits in for ever, nothing follows that could tell
            return f"skipped {usual} and went on to {called(it.entered)}"
        case "swapped":
            return f"entered {called(it.entered)} before {usual}"
        case "extra":
            return f"entered an extra {called(it.entered)} before {usual}"
        case _:
            return f"entered {called(it.entered)} where it had entered {_step(it.usual)} in each round before"


def _step(event: Entered) -> str:
    """An operation without its number, which is another in each round."""
    return called(event).replace(f" #{event.nth}", "", 1)


def _all(job: Job, waits: Waits, slots: list[int]) -> Blame:
    ranks = sorted({job.view(s).rank for s in slots})
    exact = all(waits.stuck[s].op in P2P for s in slots)
    told = _told(job, waits, slots)
    first = waits.stuck[slots[0]]
    return Blame(
        tuple(Culprit("rank", str(r)) for r in ranks),
        Kind.DEADLOCK,
        f"{names(ranks)} wait for each other: {told}",
        first.site,
        ambiguous=not exact,
        at=operation(first),
        evidence=(told,),
    )


def _told(job: Job, waits: Waits, slots: list[int]) -> str:
    said = [f"rank {job.view(s).rank} waits in {_what(job, waits, s, slots)}" for s in slots[:TOLD_MAX]]
    more = len(slots) - TOLD_MAX
    return "; ".join(said) + (f"; {more} more" if more > 0 else "")


def _what(job: Job, waits: Waits, slot: int, slots: list[int]) -> str:
    op = waits.stuck[slot]
    ranks = [m.rank for m in waits.missing[slot] if m.slot in slots]
    return called(op) if op.op in P2P else f"{called(op)} for {names(ranks)}"
