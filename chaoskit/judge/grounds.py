"""What a blame rests on, in short sentences: what the rule itself says first, then what the ranks show.

Adds to a rule's own evidence where the culprits were seen last, whose errors are a victim's, which guard
noticed, and which records are lost; says where they leave less than certainty. Never changes who is named.
"""

from __future__ import annotations

import dataclasses
import signal

from chaoskit.history import Entered, Raised
from chaoskit.judge.job import P2P, Job, RankView, names
from chaoskit.judge.wording import bare, called, line, one_line, operation, span
from chaoskit.model import Blame, Culprit, Kind, Operation

MOST = 6
TOLD_MAX = 2
"""So many culprits, and so many victims, are told of one by one."""
MESSAGE_CHARS = 100
BY_RECORDS = (
    Kind.NEVER_ENTERED, Kind.OTHER_COLLECTIVE, Kind.OTHER_SHAPE, Kind.OTHER_DTYPE, Kind.OTHER_GROUP,
    Kind.DEADLOCK, Kind.LATE,
)  # fmt: skip
"""Kinds that are told from the ranks' records: lost ones of a culprit leave a doubt."""


def complete(job: Job, blame: Blame) -> Blame:
    """Return ``blame`` with all its evidence, and called likely where records of a culprit are lost."""
    guilty = [v for v in job.ranks if Culprit("rank", str(v.rank)) in blame.culprits]
    lost = [v for v in guilty if v.lost]
    told = [
        *blame.evidence,
        *(said for v in guilty[:TOLD_MAX] if (said := _seen(v))),
        *_victims(job, blame, guilty),
        *_guards(job, guilty),
        *(_lost(v) for v in job.ranks if v.lost),
    ]
    if not blame.culprits:
        told = [*blame.evidence]
    return dataclasses.replace(
        blame,
        likely=blame.likely or (blame.kind in BY_RECORDS and bool(lost)),
        evidence=tuple(dict.fromkeys(told))[:MOST],
    )


def parted(job: Job, view: RankView) -> Operation | None:
    """Return the operation in which a rank that ended, or froze, is missing to the others.

    That is the one it sits in; else the first that another rank of its group entered and it did not.
    """
    if view.waiting is not None:
        return operation(view.waiting)
    places = {(e.group, e.members, e.op, e.nth) for e in view.entered}
    beyond: dict[tuple[object, ...], list[Entered]] = {}
    for event in (e for v in job.ranks for e in v.entered if v.slot != view.slot and e.op not in P2P):
        place = (event.group, event.members, event.op, event.nth)
        if place not in places and (not event.members or view.rank in event.members):
            beyond.setdefault(place, []).append(event)
    kept = [entries for entries in beyond.values() if not _is_old(view, entries[0].t_s)]
    first = min(kept, key=lambda entries: _progress(job, entries), default=None)
    if first is not None:
        return operation(first[0])
    return operation(view.last) if view.last is not None else None


def _progress(job: Job, entries: list[Entered]) -> tuple[int, float]:
    """How many members have not come there, and when the first did: what most wait in is before the rest."""
    members = len(entries[0].members or job.ranks)
    return members - len({e.slot for e in entries}), min(e.t_s for e in entries)


def _is_old(view: RankView, t_s: float) -> bool:
    """Was that before the oldest record that is left of this rank?"""
    return bool(view.lost and view.entered and t_s < view.entered[0].t_s)


def how_it_ended(view: RankView) -> str:
    """Return ``rank 1: ended by SIGKILL 0.4 ms after it entered all_reduce #8``; empty if it did not."""
    ended = view.ended
    if ended is None or view.alive_at_deadline:
        return ""
    code = ended.exit_code
    how = f"exited with code {code},"
    if code < 0:
        known = -code in set(signal.Signals)
        how = f"ended by {signal.Signals(-code).name if known else f'signal {-code}'}"
    return f"rank {view.rank}: {how}{after(view, ended.t_s)}"


def after(view: RankView, t_s: float) -> str:
    """Return how long after its last operation that was, with a space before it."""
    last = view.last
    if last is None:
        return " before it had entered any operation"
    ends = [c.t_s for c in view.completions if c.seq == last.seq]
    ends += [f.t_s for f in view.failed if f.seq == last.seq]
    past = f"{span(max(0.0, t_s - last.t_s))} after it entered {called(last)}"
    if ends and ends[0] <= t_s:
        past = f"{span(t_s - ends[0])} after {bare(last)} {'failed' if view.failed else 'completed'} on it"
    return f" {past}"


def raised(view: RankView, event: Raised) -> str:
    """Return ``rank 1: raised ValueError (bad batch) at train.py:33, 2 ms after …``."""
    at = f" at {line(event.site)}" if event.site else ""
    return (
        f"rank {view.rank}: raised {event.type} ({one_line(event.message, MESSAGE_CHARS)}){at}"
        f"{after(view, event.t_s)}"
    )


def _seen(view: RankView) -> str:
    """Where a rank that was alive at the deadline was looked at last."""
    if not view.alive_at_deadline or not view.samples:
        return ""
    sample = view.samples[-1]
    site = view.last_site or sample.line
    inner = view.stack[0].split(" (", 1)[0] if view.stack else ""
    deeper = inner and sample.line != site and not _is_chaoskits(view.stack[0])
    state = {"T": ", stopped", "t": ", stopped", "D": ", in an uninterruptible wait", "Z": ", a zombie"}
    if not site and not state.get(sample.state):
        return ""
    at = f" at {line(site)}" if site else ""
    return f"rank {view.rank} last seen{at}{f', in {inner}' if deeper else ''}{state.get(sample.state, '')}"


def _is_chaoskits(frame: str) -> bool:
    return "/chaoskit/" in frame or "(chaoskit/" in frame


def _victims(job: Job, blame: Blame, guilty: list[RankView]) -> list[str]:
    """The first that suffered, and how much later than the culprit's end."""
    ends = [v.ended.t_s for v in guilty if v.ended is not None and not v.alive_at_deadline]
    since = min(ends, default=float("inf"))
    hit = [(v.raised.t_s, v, v.raised) for v in job.ranks if v.raised is not None and v not in guilty]
    hit = [h for h in hit if h[1].is_victim_by_error]
    said = []
    for t_s, view, event in sorted(hit, key=lambda h: h[0])[:TOLD_MAX]:
        later = f" {span(t_s - since)} later" if since <= t_s else ""
        message = one_line(event.message, MESSAGE_CHARS)
        said.append(f"rank {view.rank} raised {event.type}: {message}{later} (a victim)")
    if not hit and (ended := [v.rank for v in job.ranks if v not in guilty and job.ended_by_launcher(v)]):
        said.append(f"{names(ended)} ended by the launcher ({'a victim' if len(ended) == 1 else 'victims'})")
    return said if any(c.kind == "rank" for c in blame.culprits) or not guilty else []


def _guards(job: Job, guilty: list[RankView]) -> list[str]:
    """The first guard that noticed."""
    fired = [(v.fired.t_s, v, v.fired) for v in job.ranks if v.fired is not None]
    if not fired:
        return []
    _, view, event = min(fired, key=lambda f: f[0])
    return [f"guard {event.guard} of rank {view.rank}: {one_line(event.message)}"]


def _lost(view: RankView) -> str:
    kept = f" before #{view.entered[0].seq}" if view.entered else ""
    return f"records of rank {view.rank}{kept} are lost"
