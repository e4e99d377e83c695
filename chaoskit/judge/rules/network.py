"""The network between the hosts: interfaces and links that did not carry what the ranks sent.

Asked only where no rank had ended, stopped or gone astray before: then ranks that wait for each other are
victims, in whichever operation each of them sits. A link that flapped, or is slow, is blamed only where no
rank is missing that could have come.
"""

from __future__ import annotations

from collections import Counter

from chaoskit.history import Entered, GuardFired, PathState
from chaoskit.judge import reach
from chaoskit.judge.job import Job, names
from chaoskit.judge.reach import INF, Outage, Paths
from chaoskit.judge.rules import first_end
from chaoskit.judge.rules.first_end import Cause
from chaoskit.judge.wording import operation
from chaoskit.model import Blame, Culprit, Kind, link
from chaoskit.network import STORE_HOST

NIC_CHECK = "nic_check"
DEAD: tuple[PathState, ...] = ("silent", "refused")
ANSWER_S = 1.0
"""A link was down for so long before an error of a program's own may be its answer to that."""
REPORTED_LATE_S = 0.25
NAMED_MAX = 6
"""So many pairs of hosts are told in a reason; all of them are culprits."""


def guarded(job: Job) -> Blame | None:
    """Return what a guard that ended ranks found to be the cause: what most of them say, or the earliest."""
    fired = sorted((v.fired for v in job.ranks if v.fired and v.fired.blames), key=lambda f: f.t_s)
    if not fired or any(c.t_s < fired[0].t_s for c in first_end.strong(job)):
        return None
    said = Counter(f.blames for f in fired)
    chosen = max(fired, key=lambda f: said[f.blames])  # the first of equals
    culprits = tuple(dict.fromkeys(c for text in chosen.blames if (c := culprit(text)) is not None))
    if not culprits or any(_contradicted(job, c) for c in culprits):
        return None
    reason = " ".join(chosen.message.split())[:300]
    ranks = [v.rank for v in job.ranks if v.fired is not None and v.fired.blames == chosen.blames]
    evidence = (f"guard {chosen.guard} of {names(ranks)}: {reason}",)
    return Blame(culprits, _kind_of(chosen, culprits), reason, evidence=evidence)


def culprit(text: str) -> Culprit | None:
    """Return the culprit that a guard names as ``nic hostB docker0``; None for what is none."""
    kind, _, name = text.partition(" ")
    name = " ".join(name.split())
    match kind:
        case "host" if name and " " not in name:
            return Culprit("host", name)
        case "nic" if len(name.split()) == 2:
            return Culprit("nic", name)
        case "link" if len(ends := name.split("–")) == 2 and all(ends):
            return link(*ends)
        case "rank" if name.isascii() and name.isdigit():
            return Culprit("rank", str(int(name)))
        case _:
            return None


def _kind_of(fired: GuardFired, culprits: tuple[Culprit, ...]) -> Kind:
    """An interface that failed before the group formed was the wrong one to choose."""
    chosen_wrong = fired.guard == NIC_CHECK and all(c.kind == "nic" for c in culprits)
    return Kind.CONFIGURATION if chosen_wrong else Kind.UNREACHABLE


def _contradicted(job: Job, named: Culprit) -> bool:
    """A host that some reach and some do not is there: what is broken lies between."""
    if named.kind != "host" or not reach.is_reached(job, named.id):
        return False
    return any(p.to == named.id and p.state in DEAD for p in job.paths)


def find(job: Job) -> Blame | None:
    """Return the interfaces and links over which nothing passed, or too little."""
    if len(job.hosts) < 2:
        return None
    down = reach.outages(job)
    harmed = reach.harmed_s(job)
    stayed = [o for o in down if o.until_s == INF or o.until_s > harmed]
    found = _dead(job, stayed) or _unplugged(job)
    if found is None and not any(reach.outside(job, v) for v in job.ranks):
        found = _slow(job) or _flapped(job, [o for o in down if o not in stayed])
    return found


def _somebody_was_first(job: Job) -> bool:
    """Had a rank ended or stopped by its own doing before any other suffered? Then that is the cause."""
    return _is_first(job, first_end.strong(job))


def _somebody_left_first(job: Job) -> bool:
    """Or had one exited with a code of its own, no error seen? That counts against mere silence."""
    return _is_first(job, [*first_end.strong(job), *first_end.exits(job)])


def _is_first(job: Job, causes: list[Cause]) -> bool:
    own_s = min((c.t_s for c in causes), default=INF)
    return own_s < INF and own_s <= _suffered_s(job)


def _suffered_s(job: Job) -> float:
    """From when on ranks suffered from something else than a lost peer, whose end may be reported after its
    connections closed."""
    harmed = reach.harmed_s(job)
    lost = [f for v in job.ranks for f in v.failed if f.t_s == harmed and "imed out" not in f.message]
    return harmed + REPORTED_LATE_S if lost else harmed


def _is_to_blame(job: Job, outage: Outage) -> bool:
    """Had nobody ended by itself before ranks suffered, but for what a link that was down long made it raise?

    No link kills a process. An error of a program's own that comes out of an operation may be its answer to
    the link.
    """
    causes = first_end.strong(job)
    if any(c.t_s <= outage.since_s for c in causes):
        return False
    if outage.until_s < INF:  # it came back
        causes = [*causes, *first_end.exits(job)]
    return not _is_first(job, [c for c in causes if not _is_answer(c, outage)])


def _is_answer(cause: Cause, outage: Outage) -> bool:
    in_operation = cause.kind is Kind.EXCEPTION and cause.view.waiting is not None
    return in_operation and outage.since_s + ANSWER_S <= cause.t_s <= outage.until_s


# ---------------------------------------------------------------- nothing passes


def _dead(job: Job, down: list[Outage]) -> Blame | None:
    """Links that went down and stayed so, and paths that are silent though no link is down."""
    down = [o for o in down if _is_to_blame(job, o)]
    ports = {(o.host, o.nic) for o in down}
    down = [o for o in down if _matters(job, o)]
    culprits = [_nic(o.host, o.nic) for o in down]
    reasons = [_went_down(job, o) for o in down]
    first = _somebody_was_first(job) if down else _somebody_left_first(job)
    if not first:  # when these broke is not known: any earlier end may be the cause
        for paths in reach.paths(job):
            left = paths.only(DEAD, {host for host, nic in ports if nic == paths.nic})
            named, why = _name(job, left)
            culprits += named
            reasons += why
    return _blame(job, culprits, reasons)


def _matters(job: Job, outage: Outage) -> bool:
    """Was there anybody left on that host whom it could hurt?"""
    if outage.host == STORE_HOST:
        return True
    return any(v.finished is None or v.finished.t_s > outage.since_s for v in job.on(outage.host))


def _went_down(job: Job, outage: Outage) -> str:
    at = max(0.0, outage.since_s - job.begun_s)
    down = f"the link of {outage.host}'s {outage.nic} went down {at:.3g} s after the start"
    return f"{down} and was not back when ranks failed"


def _unplugged(job: Job) -> Blame | None:
    """Interfaces that the backend uses though some host has no way to them, and the group never formed."""
    to = {(p.to, p.nic) for p in job.paths}
    if job.has_formed or not to or _somebody_was_first(job):
        return None
    told = [(host, nics[0]) for host, nics in reach.told(job).items() if len(nics) == 1]
    tested = {(p.host, p.to) for p in job.paths}
    if any((a, b) not in tested for a in job.hosts for b in job.hosts if a != b):
        seen = {nic for _, nic in to}  # of many hosts only some pairs are tested
        odd = [(host, nic) for host, nic in told if nic not in seen]
    else:
        odd = [port for port in told if port not in to]
    if not odd:
        return None
    said = ", ".join(f"{host} uses {nic}" for host, nic in odd)
    open_ways = {p.nic for p in job.paths if p.state == "open" and {p.host, p.to} <= set(job.hosts)}
    ways = ", ".join(sorted(open_ways)) or "nothing else either"
    reason = f"{said}, to which no switch connects the other hosts; they reach each other over {ways}"
    evidence = (reason, "no path test got through to it, and the group never formed")
    return Blame(tuple(_nic(*o) for o in odd), Kind.CONFIGURATION, reason, evidence=evidence)


# ---------------------------------------------------------------- too little passes, or did not for a while


def _slow(job: Job) -> Blame | None:
    if _somebody_was_first(job):
        return None
    found = [_name(job, paths.only(("slow",))) for paths in reach.paths(job)]
    return _blame(job, [c for named, _ in found for c in named], [w for _, why in found for w in why])


def _flapped(job: Job, flaps: list[Outage]) -> Blame | None:
    """Links that were down for a while with an operation under way, since when none went over them."""
    hit = [o for o in flaps if _matters(job, o) and _under_way(job, o)]
    if not hit or _somebody_was_first(job):
        return None
    reasons = [
        f"the link of {o.host}'s {o.nic} was down from {o.since_s - job.begun_s:.3g} s to "
        f"{o.until_s - job.begun_s:.3g} s after the start, and nothing went over it since"
        for o in hit
    ]
    return _blame(job, [_nic(o.host, o.nic) for o in hit], reasons)


def _under_way(job: Job, outage: Outage) -> bool:
    """Was a rank in an operation when the link was down, out of which it has not come?"""
    stuck = [(v, f.seq) for v in job.ranks for f in v.failed[:1]]
    stuck += [(v, v.waiting.seq) for v in job.ranks if v.waiting is not None]
    return any(e.seq == seq and e.t_s <= outage.until_s for v, seq in stuck for e in v.entered)


# ---------------------------------------------------------------- names


def _name(job: Job, paths: Paths) -> tuple[list[Culprit], list[str]]:
    """Name what is broken: the interface of a host that nobody reaches, else the link of each pair of hosts.

    Where paths between hosts of ranks are broken, those to a store elsewhere are left out: whether there is
    one must not change the name of what is broken.
    """
    ranks_only = paths.between(job.hosts)
    with_store = not ranks_only.bad
    kept = paths if with_store else ranks_only
    known = {*job.hosts, STORE_HOST} if with_store else set(job.hosts)
    hosts = [h for h in kept.hosts if h in known]
    pairs = [p for p in kept.pairs if set(p) <= known]
    alone = [h for h in hosts if _reaches_nobody(h, hosts, set(pairs))]
    rest = [h for h in hosts if h not in alone]
    if not alone or len(rest) < 2:
        alone = []
    left = [p for p in pairs if not set(p) & set(alone)]
    culprits = [_nic(h, paths.nic) for h in alone] + [link(*p) for p in left]
    return culprits, [_alone(h, kept) for h in alone] + _apart(left, kept)


def _reaches_nobody(host: str, hosts: list[str], pairs: set[tuple[str, str]]) -> bool:
    return len(hosts) > 1 and all((min(host, h), max(host, h)) in pairs for h in hosts if h != host)


def _alone(host: str, paths: Paths) -> str:
    mine = paths.of(host)
    how = _how(mine)
    sent = all(path[0] == host for path, _ in mine.bad)
    got = all(path[1] == host for path, _ in mine.bad)
    if sent or got:
        way = f"what {host} sends" if sent else f"what the others send to {host}"
        return (
            f"{way} over its {paths.nic} does not arrive at any other host, the other direction does ({how})"
        )
    if how == "slow":
        return f"{host}'s {paths.nic} carries next to nothing to and from every other host (slow)"
    return f"no other host reaches {host} over {paths.nic}, and they reach each other ({how})"


def _apart(pairs: list[tuple[str, str]], paths: Paths) -> list[str]:
    said = [_pair(a, b, paths) for a, b in pairs[:NAMED_MAX]]
    return said + ([f"{len(pairs) - NAMED_MAX} more pairs"] if len(pairs) > NAMED_MAX else [])


def _pair(a: str, b: str, paths: Paths) -> str:
    both = paths.between((a, b))
    how = _how(both)
    tested = {(a, b), (b, a)} & paths.tested
    if len(both.bad) == 1 and len(tested) == 2:
        sender, to = both.bad[0][0]
        return f"{sender} does not reach {to} over {paths.nic} ({how}), {to} reaches {sender}"
    if how == "slow":
        return f"{paths.nic} carries next to nothing between {a} and {b} (slow)"
    return f"{a} and {b} do not reach each other over {paths.nic} ({how})"


def _how(paths: Paths) -> str:
    return " or ".join(dict.fromkeys(state for _, state in paths.bad))


def _nic(host: str, name: str) -> Culprit:
    return Culprit("nic", f"{host} {name}")


def _blame(job: Job, culprits: list[Culprit], reasons: list[str]) -> Blame | None:
    if not culprits:
        return None
    stuck = [(f.t_s, f.seq, v) for v in job.ranks for f in v.failed[:1]]
    stuck += [(INF, v.waiting.seq, v) for v in job.ranks if v.waiting is not None]
    hit: Entered | None = None
    if stuck:
        _, seq, view = min(stuck, key=lambda s: (s[0], s[2].slot))
        hit = next((e for e in view.entered if e.seq == seq), None)
    return Blame(
        tuple(dict.fromkeys(culprits)),
        Kind.UNREACHABLE,
        "; ".join(reasons),
        hit.site if hit is not None else "",
        at=operation(hit) if hit is not None else None,
        evidence=(*dict.fromkeys(reasons), "no rank had ended or stopped by its own doing before"),
    )
