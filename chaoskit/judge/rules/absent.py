"""Ranks that are missing in an operation that others wait in, and are not themselves waiting.

Who waits for whom is followed to its root: a rank that waits elsewhere is missing because of
somebody else. Where the waits form a circle, all of the circle are named, ambiguous.
"""

from __future__ import annotations

from chaoskit.history import Entered
from chaoskit.judge import reach
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
    roots = sorted(
        {
            m.slot
            for slot, missing in waits.items()
            for m in missing
            if _is_root(m, stuck[slot], stuck, waits, _may_be_held_up(job, m, stuck, waits))
        }
    )
    if not roots and (waiting := [s for s in sorted(wanted) if s in stuck and stuck[s].op in P2P]):
        return _unknown_peer(job, waiting, stuck)
    if not roots and len(job.hosts) > 1 and not any(waits[s] for s in wanted if s in stuck):
        return _undelivered(job, sorted(wanted), stuck)
    if not roots:
        return _circle(job, sorted(wanted), stuck)
    waiters = sorted(slot for slot, missing in waits.items() if any(m.slot in roots for m in missing))
    guilty, alone = _outnumbered(job, roots, waiters)
    several = len({(stuck[w].group, stuck[w].op) for w in waiters}) > 1 and len(guilty) > 1
    return _blame(job, guilty, stuck[waiters[0]], alone, several)


def _is_root(
    view: RankView,
    wanted_in: Entered,
    stuck: dict[int, Entered],
    waits: dict[int, list[RankView]],
    held_up: bool,
) -> bool:
    """Is this rank, missing in ``wanted_in``, missing by its own doing?

    Not if it waits elsewhere for somebody (in a send or recv it is not recorded for whom), nor if it lost a
    peer in another operation that nobody was missing in. One that sits in the wanted operation came too late.
    Between hosts such an operation may be held up by the network: half of a job goes on, half does not.
    """
    own = stuck.get(view.slot)
    if own is None:
        return True
    if waits[view.slot] or own.op in P2P:
        return False
    return _reached(own, wanted_in) or not (view.failed or held_up)


def _may_be_held_up(
    job: Job, view: RankView, stuck: dict[int, Entered], waits: dict[int, list[RankView]]
) -> bool:
    """May the network hold this rank up? Where it was seen to be bad, or its whole host is held up alike."""
    if len(job.hosts) < 2:
        return False
    if reach.outages(job) or any(paths.bad for paths in reach.paths(job)):
        return True
    return all(v.slot in stuck and not waits[v.slot] for v in job.on(view.host))


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
    """Until when an entry counts as in time: the end of the waiting rank's patience.

    An operation that failed for another reason than time says nothing about who was late.
    """
    failed = [f for f in view.failed if f.seq == op.seq]
    timed_out = failed and (
        (view.raised is not None and view.raised.category == "timeout") or "imed out" in failed[0].message
    )
    return failed[0].t_s if timed_out else float("inf")


def _reached(event: Entered, op: Entered) -> bool:
    return event.group == op.group and event.op == op.op and event.nth >= op.nth


def _outnumbered(job: Job, roots: list[int], waiters: list[int]) -> tuple[list[int], bool]:
    """A rank alone in an operation that all others finished without made one too many."""
    done = all(job.view(s).finished is not None for s in roots)
    if done and len(waiters) < len(roots):
        return waiters, True
    return roots, False


def _blame(job: Job, slots: list[int], op: Entered, alone: bool, several: bool) -> Blame:
    """``several``: the ranks are missing in different operations, so one may have been merely behind."""
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
    reason = f"{names(ranks)} {verb} {what}, the others waited in it{at}"
    return Blame(culprits, kind, reason, views[0].last_line, ambiguous=tie or several)


def _unknown_peer(job: Job, slots: list[int], stuck: dict[int, Entered]) -> Blame:
    said = "; ".join(f"rank {job.view(s).rank} in {stuck[s].op} #{stuck[s].nth}" for s in slots)
    reason = f"the others wait for ranks that wait for a peer themselves, which is not recorded: {said}"
    return Blame(kind=Kind.UNKNOWN, reason=reason, where=stuck[slots[0]].site)


def _undelivered(job: Job, slots: list[int], stuck: dict[int, Entered]) -> Blame:
    said = "; ".join(f"rank {job.view(s).rank} in {stuck[s].op} #{stuck[s].nth}" for s in slots if s in stuck)
    reason = f"the others wait for ranks that are held up in an operation which nobody is missing in: {said}"
    return Blame(kind=Kind.UNKNOWN, reason=reason, where=stuck[slots[0]].site if slots[0] in stuck else "")


def _circle(job: Job, slots: list[int], stuck: dict[int, Entered]) -> Blame:
    ranks = [job.view(s).rank for s in slots]
    said = "; ".join(
        f"rank {job.view(s).rank} in {stuck[s].op} #{stuck[s].nth} of {stuck[s].group}" for s in slots
    )
    culprits = tuple(Culprit("rank", str(r)) for r in sorted(set(ranks)))
    return Blame(
        culprits, Kind.OTHER_COLLECTIVE, f"{names(ranks)} wait for each other: {said}", ambiguous=True
    )
