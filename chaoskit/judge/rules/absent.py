"""Ranks that are missing in an operation that others wait in, and are not themselves waiting.

Who waits for whom is followed to its root: a rank that waits elsewhere is missing because of
somebody else. Where the waits form a circle, all of the circle are named, ambiguous.
"""

from __future__ import annotations

from chaoskit.history import Entered
from chaoskit.judge.job import P2P, Job, RankView, names
from chaoskit.model import Blame, Culprit, Kind


def find(job: Job) -> Blame | None:
    """Return the ranks that the others waited for."""
    stuck = {v.slot: op for v in job.ranks if (op := _stuck_in(v)) is not None}
    if not stuck:
        return None
    waits = {slot: _missing(job, job.view(slot), op) for slot, op in stuck.items()}
    wanted = {m.slot for missing in waits.values() for m in missing}
    if not wanted:
        return None
    roots = sorted(wanted - {slot for slot, missing in waits.items() if missing})
    if not roots:
        return _circle(job, sorted(wanted), stuck)
    waiters = sorted(slot for slot, missing in waits.items() if any(m.slot in roots for m in missing))
    guilty, alone = _outnumbered(job, roots, waiters, stuck)
    return _blame(job, guilty, stuck[waiters[0]], alone)


def _stuck_in(view: RankView) -> Entered | None:
    """The operation this rank waits in, or waited in until it failed there."""
    if view.waiting is not None:
        return view.waiting
    if view.failed:
        first = min(view.failed, key=lambda f: f.t_s)
        return next((e for e in view.entered if e.seq == first.seq), None)
    return None


def _missing(job: Job, view: RankView, op: Entered) -> list[RankView]:
    members = op.members or tuple(v.rank for v in job.ranks)
    others = [v for v in job.ranks if v.rank in members and v.slot != view.slot]
    if op.op in P2P:
        return []
    return [v for v in others if not any(_reached(e, op) for e in v.entered if e.t_s <= _until(view, op))]


def _until(view: RankView, op: Entered) -> float:
    """Until when an entry counts as in time: the operation's failure on the waiting rank."""
    failed = [f.t_s for f in view.failed if f.seq == op.seq]
    return failed[0] if failed else float("inf")


def _reached(event: Entered, op: Entered) -> bool:
    return event.group == op.group and event.op == op.op and event.nth >= op.nth


def _outnumbered(
    job: Job, roots: list[int], waiters: list[int], stuck: dict[int, Entered]
) -> tuple[list[int], bool]:
    """A rank alone in an operation that all others finished without made one too many."""
    done = all(job.view(s).finished is not None for s in roots)
    if done and len(waiters) < len(roots):
        return waiters, True
    return roots, False


def _blame(job: Job, slots: list[int], op: Entered, alone: bool) -> Blame:
    views = [job.view(s) for s in slots]
    ranks = [v.rank for v in views]
    culprits = tuple(Culprit("rank", str(r)) for r in sorted(set(ranks)))
    what = "init" if op.op == "init" else f"{op.op} #{op.nth}"
    if alone:
        reason = f"{names(ranks)} entered {what}, which the others finished without"
        return Blame(culprits, Kind.OTHER_COLLECTIVE, reason, op.site)
    tie = all(v.finished is not None for v in views) and len(slots) * 2 == len(job.ranks)
    late = all(any(_reached(e, op) for e in v.entered) for v in views)
    kind = Kind.LATE if late else Kind.NEVER_ENTERED
    verb = "came too late to" if late else "never entered"
    last = views[0].last
    at = f"; last seen in {last.op} #{last.nth}" if last is not None else ""
    return Blame(
        culprits, kind, f"{names(ranks)} {verb} {what}, the others waited in it{at}", _where(views[0]), tie
    )


def _where(view: RankView) -> str:
    return view.last_line


def _circle(job: Job, slots: list[int], stuck: dict[int, Entered]) -> Blame:
    ranks = [job.view(s).rank for s in slots]
    said = "; ".join(
        f"rank {job.view(s).rank} in {stuck[s].op} #{stuck[s].nth} of {stuck[s].group}" for s in slots
    )
    culprits = tuple(Culprit("rank", str(r)) for r in sorted(set(ranks)))
    return Blame(
        culprits, Kind.OTHER_COLLECTIVE, f"{names(ranks)} wait for each other: {said}", ambiguous=True
    )
