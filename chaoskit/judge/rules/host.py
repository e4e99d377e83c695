"""Hosts that vanished or stood still as a whole: what happened to all of a host's ranks happened to the host.

With one rank on a host nothing tells its end from the host's, unless the host's link went down with it. A
host that only holds the store has no ranks: of its end the guard tells that watches it.
"""

from __future__ import annotations

from chaoskit.judge import grounds, reach
from chaoskit.judge.job import Job, RankView, names
from chaoskit.judge.rules import first_end
from chaoskit.judge.rules.first_end import Cause
from chaoskit.judge.wording import span
from chaoskit.model import Blame, Culprit, Kind
from chaoskit.network import STORE_HOST

TOLD_MAX = 3
TOGETHER_S = 1.0
"""Ranks of one host that ended within so much ended together: a death is reported late while its memory is
torn down."""
STORE_GUARD = "store_outside"
LINK_S = 1.0
"""A link that went down within so much of the ranks' end went down with them."""
REBOOT_S = 0.5
"""No host that lost power has its link back sooner."""
WAITED_SHARE = 0.5
"""A stop explains a wait in vain if it lasted for this share of it."""


def find(job: Job) -> Blame | None:
    """Return the hosts whose ranks were all ended, or all stopped, before anybody else had done anything."""
    if len(job.hosts) < 2:
        return None
    causes = first_end.strong(job)
    if blame := _was_frozen(job, causes[0].t_s if causes else reach.INF):
        return blame
    if not causes:
        return None
    first = _led_by_a_link(job, causes) or causes[0]
    near = [c for c in causes if c.t_s >= first.t_s and c.t_s - first.t_s <= TOGETHER_S]
    gone = [host for host in job.hosts if _all_gone(job, host, near, first)]
    if first.view.host not in gone or len(gone) == len(job.hosts):
        return None
    link = _link(job, first)
    also = f", when the link of its {link} went down" if link else ""
    alone = len(gone) == 1 and len(job.on(gone[0])) == 1
    together = "" if alone else ", and all of them together"
    reason = f"{_every_rank(job, gone)} {first.reason}{together}{also}"
    culprits = tuple(Culprit("host", host) for host in sorted(gone))
    return Blame(
        culprits,
        first.kind,
        reason,
        first.view.last_line,
        at=grounds.parted(job, first.view),
        evidence=(
            *(e for c in near[:TOLD_MAX] if c.view.host in gone for e in first_end.evidence(c)),
            *((f"the link of {first.view.host}'s {link} went down with them",) if link else ()),
        ),
    )


def store(job: Job) -> Blame | None:
    """Return the host of the store, where that is no rank's and its guard ended the ranks for its loss."""
    told = [s for v in job.ranks for s in v.signals if s.guard == STORE_GUARD]
    said = [(s.t_s, s.reason) for s in told]
    said += [(v.fired.t_s, v.fired.message) for v in job.ranks if v.fired and v.fired.guard == STORE_GUARD]
    if not said:
        return None
    first_s, why = min(said)
    kind = _store_kind(why)
    link = any(o.host == STORE_HOST and o.since_s <= first_s for o in reach.outages(job))
    between = reach.is_reached(job, STORE_HOST) and any(
        p.to == STORE_HOST and p.state != "open" for p in job.paths
    )
    if any(c.t_s < first_s for c in first_end.strong(job)) or (
        kind is Kind.UNREACHABLE and (link or between)
    ):
        return None  # the ranks, or the network, were first
    reason = " ".join(why.split())[:300]
    seen = (f"{STORE_GUARD}: {reason}", "no rank had ended or stopped before")
    return Blame((Culprit("host", STORE_HOST),), kind, reason, evidence=seen)


def _store_kind(why: str) -> Kind:
    if "stopped" in why or "frozen" in why:
        return Kind.FROZEN
    return Kind.KILLED if "ended" in why or "gone" in why else Kind.UNREACHABLE


def _all_gone(job: Job, host: str, near: list[Cause], first: Cause) -> bool:
    """Did all ranks of ``host`` end or stop in the way of the first, and is the host more than one rank?"""
    alike = {c.view.slot for c in near if _way(c) == _way(first) is not None}
    views = job.on(host)
    if not views or any(v.slot not in alike for v in views):
        return False
    if first.kind is not Kind.KILLED:
        return len(views) > 1
    event = reach.went_down(job, host, first.t_s - LINK_S, first.t_s + LINK_S)
    if event is not None and reach.was_down_s(job, event) < REBOOT_S:
        return False
    link = event is not None
    powered = reach.is_powered(job, host, max(c.t_s for c in near if c.view.host == host))
    return not powered and link if len(views) == 1 else link or not powered


def _led_by_a_link(job: Job, causes: list[Cause]) -> Cause | None:
    """The first end on a host that was lost with its link, which went down before anybody had ended: of a
    death the report may come late."""
    for host in dict.fromkeys(c.view.host for c in causes):
        mine = [c for c in causes if c.view.host == host]
        event = reach.went_down(job, host, mine[0].t_s - LINK_S, causes[0].t_s)
        near = [c for c in mine if c.t_s - mine[0].t_s <= TOGETHER_S]
        if event is not None and mine[0].kind is Kind.KILLED and _all_gone(job, host, near, mine[0]):
            return mine[0]
    return None


def _was_frozen(job: Job, before_s: float) -> Blame | None:
    """A host whose ranks were all stopped while others lost patience, and went on later."""
    harmed = reach.harmed_s(job)
    for host in job.hosts:
        views = job.on(host)
        stops = [_stop_around(v, harmed) for v in views]
        times = [t for t in stops if t is not None and harmed - t >= WAITED_SHARE * _waited_s(job, harmed)]
        if len(views) < 2 or len(times) < len(views) or len(views) == len(job.ranks):
            continue
        if max(times) - min(times) <= TOGETHER_S and min(times) <= before_s:
            reason = f"{_every_rank(job, [host])} was stopped, all of them together, until others had failed"
            said = f"{names([v.rank for v in views])}: stopped within {span(max(times) - min(times))}"
            return Blame(
                (Culprit("host", host),),
                Kind.FROZEN,
                reason,
                views[0].last_line,
                at=grounds.parted(job, views[0]),
                evidence=(said, f"the first other rank failed {span(harmed - min(times))} after that"),
            )
    return None


def _waited_s(job: Job, harmed: float) -> float:
    """How long the operation had been under way that was the first to fail."""
    failed = next(((v, f) for v in job.ranks for f in v.failed if f.t_s == harmed), None)
    if failed is None:
        return 0.0
    view, event = failed
    return max((harmed - e.t_s for e in view.entered if e.seq == event.seq), default=0.0)


def _stop_around(view: RankView, t_s: float) -> float | None:
    """When this rank was stopped, if it was at that time and has gone on since."""
    before = [s for s in view.stops if s.t_s <= t_s]
    after = [s for s in view.stops if s.t_s > t_s]
    return before[-1].t_s if before and before[-1].stopped and after and not after[0].stopped else None


def _way(cause: Cause) -> tuple[Kind, int] | None:
    """How it ended: by which signal, or that it was stopped; None for what a rank does by itself."""
    if cause.kind is Kind.FROZEN:
        return Kind.FROZEN, 0
    code = cause.view.exit_code
    return (Kind.KILLED, code) if cause.kind is Kind.KILLED and code is not None and code < 0 else None


def _went_down(job: Job, host: str, t_s: float) -> str | None:
    event = reach.went_down(job, host, t_s - LINK_S, t_s + LINK_S)
    return None if event is None else event.nic


def _link(job: Job, first: Cause) -> str:
    return (_went_down(job, first.view.host, first.t_s) or "") if first.kind is Kind.KILLED else ""


def _every_rank(job: Job, hosts: list[str]) -> str:
    of = ", ".join(f"{host} ({names([v.rank for v in job.on(host)])})" for host in sorted(hosts))
    return f"every rank of {of}"
