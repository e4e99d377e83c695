"""Ranks that are missing in an operation that others wait in, and are not themselves waiting.

Who waits for whom is followed to its root: a rank that waits elsewhere is missing because of
somebody else, in a recv because of who did not send. Where the waits form a circle,
:mod:`chaoskit.judge.rules.circle` is asked.
"""

from __future__ import annotations

from chaoskit.history import Entered
from chaoskit.judge import habits, reach
from chaoskit.judge.job import P2P, Job, RankView, names
from chaoskit.judge.rules import circle, first_end
from chaoskit.judge.waits import Waits, halves, has_come, missing, number, open_ends, reached, stuck_in
from chaoskit.judge.wording import bare, called, count, fate, line, operation, span
from chaoskit.model import Blame, Culprit, Kind, Operation


def find(job: Job) -> Blame | None:
    """Return the ranks that the others waited for."""
    waits = Waits.of(job)
    wanted = sorted(waits.wanted)
    if not wanted:
        return None
    roots = sorted(
        {
            m.slot
            for slot, missing in waits.missing.items()
            for m in missing
            if _is_root(m, waits.stuck[slot], waits, _may_be_held_up(job, m, waits))
        }
    )
    if not roots and any(s in waits.unknown for s in wanted):
        return _unknown_peer(job, waits)
    if not roots and (ring := waits.circle()):
        return circle.blame(job, waits, ring)
    if not roots:
        return _undelivered(job, wanted, waits.stuck)
    waiters = waits.waiting_for(roots)
    guilty, alone = _outnumbered(job, roots, waiters)
    several = len({_place(waits.stuck[w]) for w in waiters}) > 1 and len(guilty) > 1
    first = _waited_first(job, guilty, waiters, waits.stuck)
    op = waits.stuck[first]
    if alone:
        return _too_many(job, guilty, op)
    if op.op in P2P:
        return _unanswered(job, guilty, job.view(first), op, several)
    return _missing(job, guilty, waiters, op, several)


def _is_root(view: RankView, wanted_in: Entered, waits: Waits, held_up: bool) -> bool:
    """Is this rank, missing in ``wanted_in``, missing by its own doing?

    Not if it waits elsewhere for somebody (in a send or recv it may not be recorded for whom), nor if it lost
    a peer in another operation that nobody was missing in. One that sits in the wanted operation came too
    late. Between hosts such an operation may be held up by the network: half of a job goes on, half does not.
    """
    own = waits.stuck.get(view.slot)
    if own is None:
        return True
    if waits.missing[view.slot] or own.op in P2P:
        return False
    return reached(own, wanted_in) or not (view.failed or held_up)


def _may_be_held_up(job: Job, view: RankView, waits: Waits) -> bool:
    """May the network hold this rank up? Where it was seen to be bad, or its whole host is held up alike."""
    if len(job.hosts) < 2:
        return False
    if reach.outages(job) or any(paths.bad for paths in reach.paths(job)):
        return True
    return all(v.slot in waits.stuck and not waits.missing[v.slot] for v in job.on(view.host))


def _waited_first(job: Job, guilty: list[int], waiters: list[int], stuck: dict[int, Entered]) -> int:
    """Return the waiter in whose operation the first of ``guilty`` parted from the others.

    That is one it came to late, or would have come to next by its rounds before, or that was waited in first.
    """
    view = job.view(guilty[0])
    ops = [e for e in view.unbroken if e.op != "init"]
    usual = habits.following(ops, len(ops) - 1) if ops else None
    upcoming = habits.face(usual) if usual is not None else None

    def order(slot: int) -> tuple[bool, bool, bool, int, float]:
        op = stuck[slot]
        absent = sum(m.slot not in guilty for m in missing(job, job.view(slot), op))
        return op.op in P2P, not has_come(view, op), habits.face(op) != upcoming, absent, op.t_s

    return min(waiters, key=order)


def _place(op: Entered) -> tuple[str, str]:
    return op.group, op.op


def _outnumbered(job: Job, roots: list[int], waiters: list[int]) -> tuple[list[int], bool]:
    """A rank alone in an operation that all others finished without made one too many."""
    done = all(job.view(s).finished is not None for s in roots)
    if done and len(waiters) < len(roots):
        return waiters, True
    return roots, False


def _culprits(views: list[RankView]) -> tuple[Culprit, ...]:
    return tuple(Culprit("rank", str(r)) for r in sorted({v.rank for v in views}))


def _too_many(job: Job, slots: list[int], op: Entered) -> Blame:
    """The ranks in ``slots`` sit alone in an operation that all others finished their work without."""
    views = [job.view(s) for s in slots]
    who = names([v.rank for v in views])
    others = names([v.rank for v in job.ranks if v.slot not in slots])
    reason = f"{who} entered {called(op)}, which the others finished without"
    said = f"{others} finished the work and never entered {called(op)}"
    return Blame(_culprits(views), Kind.OTHER_COLLECTIVE, reason, op.site, at=operation(op), evidence=(said,))


def _missing(job: Job, slots: list[int], waiters: list[int], op: Entered, several: bool) -> Blame:
    """``several``: the ranks are missing in different operations, so one may have been merely behind."""
    views = [job.view(s) for s in slots]
    who, there = names([v.rank for v in views]), [job.view(s) for s in waiters]
    tie = all(v.finished is not None for v in views) and len(slots) * 2 == len(job.ranks)
    late = all(has_come(v, op) for v in views)
    skipped = not late and all(v.finished is not None for v in views)
    verb = "came too late to" if late else "skipped" if skipped else "never entered"
    what = called(op)
    if skipped and _is_one_of_many(job.view(op.slot), op):
        verb, what = "skipped one of its" if len(views) == 1 else "skipped one of their", _up_to(op)
    others = fate(there, op, len(job.ranks)) or "the others waited in it"
    reason = f"{who} {verb} {what}; {others}{_last_seen(views[0], skipped)}"
    return Blame(
        _culprits(views),
        Kind.LATE if late else Kind.NEVER_ENTERED,
        reason,
        op.site if skipped else views[0].last_line,
        ambiguous=tie or several,
        at=operation(op),
        likely=not late and any(_is_merely_alive(v, there) for v in views),
        evidence=(
            _who_entered(job, views, op, late),
            *_when(views, there, op),
            *_elsewhere(job, waiters, op),
        ),
    )


def _is_one_of_many(view: RankView, op: Entered) -> bool:
    """Was the operation right before ``op`` in its group just like it? Counts then do not tell which of them
    another rank left out."""
    before = [e for e in view.entered if e.group == op.group and e.op not in P2P and e.seq < op.seq]
    alike = before and (before[-1].op, before[-1].site, before[-1].fingerprint)
    return alike == (op.op, op.site, op.fingerprint)


def _up_to(op: Entered) -> str:
    return called(op).replace(f"{op.op} #", f"{op.op}s up to #", 1)


def _last_seen(view: RankView, skipped: bool) -> str:
    last = view.last
    if skipped:
        return "; it finished without" + (" and ended with exit 0" if view.exit_code == 0 else "")
    return f"; last seen in {bare(last)}" if last is not None else ""


def _is_merely_alive(view: RankView, waiters: list[RankView]) -> bool:
    """Nobody saw what it did, and nobody waited until his patience was over: it may have been on its way."""
    if view.samples or view.finished is not None or view.ended_itself:
        return False
    return not any("imed out" in f.message for v in waiters for f in v.failed)


def _who_entered(job: Job, views: list[RankView], op: Entered, late: bool) -> str:
    there = sorted(v.rank for v in job.ranks if any(_is_there(e, op) for e in v.entered) and v not in views)
    who = names([v.rank for v in views])
    return f"{names(there)} entered {called(op)}, {who} {'only after they gave up' if late else 'never did'}"


def _is_there(event: Entered, op: Entered) -> bool:
    return _place(event) == _place(op) and event.nth == op.nth


def _elsewhere(job: Job, waiters: list[int], op: Entered) -> list[str]:
    """Who waits for them in other operations."""
    found = [(v, e) for s in waiters if (e := stuck_in(job, v := job.view(s))) is not None]
    rest = [(v, e) for v, e in found if _place(e) != _place(op)]
    if not rest:
        return []
    here = [v.rank for v, e in rest if _place(e) == _place(rest[0][1])]
    return [f"{names(here)} {'waits' if len(here) == 1 else 'wait'} for it in {called(rest[0][1])}"]


def _when(views: list[RankView], waiters: list[RankView], op: Entered) -> list[str]:
    """How long the others had waited, as far as it shows."""
    entered = [e.t_s for v in waiters for e in v.entered if _is_there(e, op)]
    arrived = [(e.t_s, v.rank) for v in views for e in v.entered if _is_there(e, op)]
    gave_up = [f.t_s for v in waiters for f in v.failed if (f.group, f.op, f.nth) == (*_place(op), op.nth)]
    if not entered:
        return []
    if arrived:
        at, rank = min(arrived)
        return [f"rank {rank} entered it {span(max(0.0, at - min(entered)))} after the first of the others"]
    if gave_up:
        return [f"the first of them failed after it had waited {span(min(gave_up) - min(entered))}"]
    return []


# ---------------------------------------------------------------- sends and receives


def _unanswered(job: Job, slots: list[int], waiter: RankView, op: Entered, several: bool) -> Blame:
    """A recv without its send, or a send without its recv."""
    views = [job.view(s) for s in slots]
    view = next((v for v in views if v.rank == op.peer), views[0])
    wanted = "recv" if op.op.endswith("send") else "send"
    made = halves(waiter, op, view)
    nth = max((e.nth for e in made), default=0) + 1
    sending = wanted == "send"
    what = f"{wanted} #{nth} {'to' if sending else 'from'} rank {waiter.rank}"
    skipped = view.finished is not None
    who = names([v.rank for v in views])
    instead = None if skipped or several else _instead(job, view, op, made)
    if instead is not None:
        what += f": it entered {called(instead)} at {line(instead.site)}, {_unwanted(instead)}"
    reason = (
        f"{who} {'skipped' if skipped else 'never entered'} {what}; rank {waiter.rank} "
        f"{'failed' if waiter.failed else 'waits'} in {called(op)}{_last_seen(view, skipped)}"
    )
    does = "a recv from rank" if not sending else "a send to rank"
    said = (
        f"rank {waiter.rank} is in its {count(number(waiter, op))} {bare_kind(op)} rank {view.rank}, which "
        f"has entered {does} {waiter.rank} {len(made)} times"
    )
    # Where the other side has done all its work, the waiting rank may as well have made one too many.
    either = skipped and len(views) == 1 and not _left_out(job, view, wanted)
    if either:
        reason += ": which of the two is wrong, no third rank tells"
    return Blame(
        _culprits([*views, waiter] if either else views),
        Kind.NEVER_ENTERED,
        reason,
        _line_of(made, view) if instead is None else instead.site,
        ambiguous=several or either,
        at=Operation(wanted, op.group, nth),
        likely=True,
        evidence=(said,),
    )


def _left_out(job: Job, view: RankView, wanted: str) -> bool:
    """Did this rank leave out, in one of its rounds, a message that it had in those before?"""
    return any(d.how == "skipped" and d.usual.op.endswith(wanted) for d in habits.own(job, [view]))


def _instead(job: Job, view: RankView, op: Entered, made: list[Entered]) -> Entered | None:
    """The newest message that ``view`` entered of the wanted kind, if it is for another peer, who has not
    come to the other side of it, and later than those that it made."""
    sends = op.op.endswith("send")
    kind = [e for e in view.entered if e.op in P2P - {"coalesced"} and e.op.endswith("send") != sends]
    if not kind or kind[-1] not in open_ends(view) or (made and made[-1].seq > kind[-1].seq):
        return None
    last = kind[-1]
    other = last.peer >= 0 and last.peer != job.view(op.slot).rank and last.group == op.group
    return last if other and last.site and missing(job, view, last) else None


def _unwanted(event: Entered) -> str:
    return "which nobody receives" if event.op.endswith("send") else "which nobody sends"


def bare_kind(op: Entered) -> str:
    """Return ``recv from`` or ``send to``."""
    return "send to" if op.op.endswith("send") else "recv from"


def _line_of(made: list[Entered], view: RankView) -> str:
    """The line of the message that it left out, where it was in this line before; else where it was last."""
    went_on = view.finished is not None or (made and view.last is not None and view.last.seq > made[-1].seq)
    return made[-1].site if made and went_on and not view.last_site else view.last_line


def _unknown_peer(job: Job, waits: Waits) -> Blame:
    slots = sorted(waits.wanted & waits.unknown)
    said = "; ".join(f"rank {job.view(s).rank} in {called(waits.stuck[s])}" for s in slots)
    reason = f"ranks wait for a peer that is not recorded, it may be anyone: {said}"
    return Blame(kind=Kind.UNKNOWN, reason=reason, where=waits.stuck[slots[0]].site)


def _undelivered(job: Job, slots: list[int], stuck: dict[int, Entered]) -> Blame:
    if found := first_end.unprovoked(job):
        return found
    said = "; ".join(f"rank {job.view(s).rank} in {called(stuck[s])}" for s in slots if s in stuck)
    reason = f"the others wait for ranks that are held up in an operation which nobody is missing in: {said}"
    named = _culprits([job.view(s) for s in slots]) if len(job.hosts) < 2 else ()
    where = stuck[slots[0]].site if slots[0] in stuck else ""
    return Blame(named, Kind.UNKNOWN, reason, where, ambiguous=bool(named))
