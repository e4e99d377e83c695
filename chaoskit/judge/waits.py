"""Who waits for whom: from the operations that were entered and have no end.

In a collective a rank waits for the members that have not entered it. A recv waits for the send that
belongs to it: the third recv of rank 0 from rank 1 in a group needs the third send of rank 1 to rank 0 there,
and a send needs its recv (tags are not recorded; messages of one pair are taken to be in order). Holds no
opinion of who is to blame.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaoskit.history import Entered, OpFailed
from chaoskit.judge.job import P2P, Job, RankView

INF = float("inf")
POSTED_MAX = 100
"""Ends of works that a script never waits for are not recorded: so many are looked at."""
_WAITING = ("wait (", "collective (")
"""The innermost frames of a rank that sits in an operation that it has posted before."""


@dataclass(frozen=True, slots=True)
class Waits:
    """``stuck``: slot -> what it waits in, or waited in until it failed there. ``missing``: slot -> for whom.

    ``unknown``: slots that sit in a send or recv of which the peer is not recorded.
    """

    stuck: dict[int, Entered]
    missing: dict[int, list[RankView]]
    unknown: frozenset[int]

    @classmethod
    def of(cls, job: Job) -> Waits:
        """Look at each rank of the job."""
        stuck = {v.slot: op for v in job.ranks if (op := stuck_in(job, v)) is not None}
        return cls(
            stuck,
            {slot: missing(job, job.view(slot), op) for slot, op in stuck.items()},
            frozenset(slot for slot, op in stuck.items() if op.op in P2P and op.peer < 0),
        )

    @property
    def wanted(self) -> set[int]:
        """The slots that somebody waits for."""
        return {m.slot for missing in self.missing.values() for m in missing}

    def waiting_for(self, slots: list[int]) -> list[int]:
        """Return the slots that wait for one of ``slots``."""
        return sorted(s for s, missing in self.missing.items() if any(m.slot in slots for m in missing))

    def circle(self) -> list[int]:
        """Return the slots that wait for each other in a circle, those on a way between two circles too."""
        left = {slot for slot, missing in self.missing.items() if missing}
        while True:
            wanted = {m.slot for slot in left for m in self.missing[slot]}
            kept = {s for s in left & wanted if any(m.slot in left for m in self.missing[s])}
            if kept == left:
                return sorted(left)
            left = kept


def stuck_in(job: Job, view: RankView) -> Entered | None:
    """Return the operation this rank waits in, or waited in until it failed there.

    Of operations that are under way at the same time, the first that somebody is missing in.
    """
    last = view.waiting
    if last is None and view.failed:
        first = min(view.failed, key=lambda f: f.t_s)
        return next((e for e in view.entered if e.seq == first.seq), None)
    posted = _posted(view)
    if last is None and not (posted and view.stack and view.stack[0].startswith(_WAITING)):
        return None
    if last is None:
        return next((e for e in posted if missing(job, view, e)), posted[-1])
    if last.op == "coalesced":
        last = _batched(view, last)
    return next((e for e in _sat_in(last, posted) if missing(job, view, e)), last)


def _sat_in(last: Entered, posted: list[Entered]) -> list[Entered]:
    """What a rank whose main thread entered ``last`` may sit in, the likeliest first.

    A recv that was posted before, for a message that comes some time, is not waited for; nor is what another
    thread sits in. Reductions that are under way at once are waited for in order.
    """
    mine = [e for e in posted if e.thread == last.thread]
    if last.op in P2P:
        return [last, *mine]
    return [*(e for e in mine if e.op not in P2P), last, *mine]


def open_ends(view: RankView) -> list[Entered]:
    """Return all operations of this rank that may not be over."""
    return _posted(view)


def seen_in(job: Job, view: RankView) -> Entered | None:
    """Return the operation this rank sits in, for words only: by its stack alone, which names no operation,
    the first open one that somebody is missing in."""
    if (op := stuck_in(job, view)) is not None:
        return op
    posted = _posted(view)
    if not posted or not view.stack or not view.stack[0].startswith(("Watched.wait (", *_WAITING)):
        return None
    return next((e for e in posted if missing(job, view, e)), posted[-1])


def _posted(view: RankView) -> list[Entered]:
    """The operations that have no end yet, in order; of more than anybody waits for at once, the newest."""
    ended = view.completed | {f.seq for f in view.failed}
    return [e for e in view.entered if e.op != "coalesced" and e.seq not in ended][-POSTED_MAX:]


def _batched(view: RankView, end: Entered) -> Entered:
    """What the end of an NCCL batch ends: its last operation."""
    before = [e for e in view.entered if e.seq < end.seq and e.op != "coalesced"]
    return before[-1] if before else end


def missing(job: Job, view: RankView, op: Entered) -> list[RankView]:
    """Return whom this rank waits for in ``op``; nobody where it is not recorded who the peer is."""
    if op.op in P2P:
        peers = [v for v in job.claiming(op.peer) if v.slot != view.slot] if op.peer >= 0 else []
        return [] if is_matched(job, view, op) else peers
    patience = until(job, view, op)
    return [v for v in members(job, view, op) if not has_come(v, op, patience)]


def has_come(view: RankView, op: Entered, by_s: float = INF) -> bool:
    """Had this rank come as far as ``op`` by then?"""
    return any(reached(e, op) for e in reversed(view.entered) if e.t_s <= by_s)


def members(job: Job, view: RankView, op: Entered) -> list[RankView]:
    """Return the other members of the group of ``op``."""
    ranks = set(op.members) or {v.rank for v in job.ranks}
    return [v for v in job.ranks if v.rank in ranks and v.slot != view.slot]


def until(job: Job, view: RankView, op: Entered) -> float:
    """Until when an entry counts as in time: the end of the waiting rank's patience.

    An operation that failed for another reason than time says nothing about who was late. Where no failure is
    recorded of it (DDP waits for its reductions in C++), the error that left the script tells.
    """
    failed = next((f for f in view.failed if f.seq == op.seq), None)
    raised = view.raised
    if failed is not None and ((raised is not None and raised.category == "timeout") or is_timeout(failed)):
        return failed.t_s
    if failed is not None or raised is None or op.t_s > raised.t_s:
        return INF
    if raised.category == "timeout":
        return raised.t_s
    others = (v.raised for v in job.ranks if v.raised is not None and v.raised.category == "timeout")
    lost_them = raised.category == "peer_lost" and any(o.t_s <= raised.t_s for o in others)
    return raised.t_s if lost_them else INF


def is_timeout(failed: OpFailed) -> bool:
    """Did this operation fail because its time was over?"""
    return "imed out" in failed.message


def reached(event: Entered, op: Entered) -> bool:
    """Has who entered ``event`` come as far as ``op``?"""
    return event.group == op.group and event.op == op.op and event.nth >= op.nth


# ---------------------------------------------------------------- sends and receives


def is_matched(job: Job, view: RankView, op: Entered) -> bool:
    """Has the other side of this send or recv been entered, as far as counts of messages tell?"""
    peers = [v for v in job.claiming(op.peer) if v.slot != view.slot]
    if op.peer < 0 or not peers:
        return False
    if any(v.lost or v.messages_left_out for v in (view, *peers)):
        # Numbers are not known: is it in the other half itself?
        return any(_is_half(e, op, view) for v in peers for e in _posted(v))
    mine = number(view, op)
    patience = until(job, view, op)
    return any(sum(_is_half(e, op, view) for e in v.entered if e.t_s <= patience) >= mine for v in peers)


def number(view: RankView, op: Entered) -> int:
    """Return the how manieth message this one is between these two in this direction."""
    return sum(_alike(e, op) for e in view.entered if e.seq <= op.seq)


def halves(view: RankView, op: Entered, peer: RankView) -> list[Entered]:
    """Return what ``peer`` entered of the other side of operations like ``op`` of ``view``."""
    return [e for e in peer.entered if _is_half(e, op, view)]


def _alike(event: Entered, op: Entered) -> bool:
    return (event.op, event.group, event.peer) == (op.op, op.group, op.peer)


def _is_half(event: Entered, op: Entered, view: RankView) -> bool:
    """Is this, entered by the peer, the other side of messages like ``op``? A recv from anyone may be."""
    if (
        event.group != op.group
        or event.op not in P2P
        or event.op == "coalesced"
        or _sends(event) == _sends(op)
    ):
        return False
    return event.peer == view.rank or (event.peer < 0 and not _sends(event))


def _sends(event: Entered) -> bool:
    return event.op.endswith("send")
