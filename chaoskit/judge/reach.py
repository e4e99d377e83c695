"""What the network between the hosts was seen to do: links that went down, paths that did not carry.

Reads the switch's events and the operations that crossed between hosts, and holds no opinion of who did what.
What did not matter to the job is left out: interfaces that its backend does not use, and links over which (as
far as it shows) operations went on after they had changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass

from chaoskit.history import LinkChanged, PathState, PathTested
from chaoskit.judge.clocks import SYNCHRONIZING
from chaoskit.judge.job import Job, RankView

Port = tuple[str, str]
"""Host and interface."""
INF = float("inf")
_BEST: tuple[PathState, ...] = ("open", "slow", "refused", "silent")
REPAIRED_S = 1.0
"""What a loaded machine may need beyond that."""
VICTIMS = ("peer_lost", "timeout", "mismatch")


@dataclass(frozen=True, slots=True)
class Outage:
    """A link was down from ``since_s`` to ``until_s`` (infinity: it stayed so)."""

    host: str
    nic: str
    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Paths:
    """The tested paths over the interfaces of one name. ``bad`` are (from, to) and what was wrong there."""

    nic: str
    hosts: tuple[str, ...]
    tested: frozenset[tuple[str, str]]
    bad: tuple[tuple[tuple[str, str], PathState], ...]

    def only(self, states: tuple[PathState, ...], but: Collection[str] = ()) -> Paths:
        """Return these paths with the bad ones that are in one of ``states``, and not of hosts ``but``."""
        return self._keeping(lambda path, state: state in states and not set(path) & set(but))

    def between(self, hosts: Collection[str]) -> Paths:
        """Return these paths with the bad ones between two of ``hosts``."""
        return self._keeping(lambda path, _: set(path) <= set(hosts))

    def of(self, host: str) -> Paths:
        """Return these paths with the bad ones from or to ``host``."""
        return self._keeping(lambda path, _: host in path)

    def _keeping(self, keep: Callable[[tuple[str, str], PathState], bool]) -> Paths:
        return dataclasses.replace(self, bad=tuple(entry for entry in self.bad if keep(*entry)))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The two hosts of each bad path, once for both directions."""
        return tuple(sorted({(min(path), max(path)) for path, _ in self.bad}))


def harmed_s(job: Job) -> float:
    """Return when the first rank was seen to suffer: it failed, or was ended by a guard, its launcher or the
    supervisor; infinity if none was."""
    times = [f.t_s for v in job.ranks for f in v.failed]
    times += [v.raised.t_s for v in job.ranks if v.raised is not None and v.raised.category in VICTIMS]
    times += [v.fired.t_s for v in job.ranks if v.fired is not None]
    times += [s.t_s for v in job.ranks for s in v.signals]
    times += [v.ended.t_s for v in job.ranks if v.ended is not None and v.ended.by]
    return min(times, default=INF)


def outages(job: Job) -> list[Outage]:
    """Return the times at which a link that mattered was down before any rank had suffered, in order."""
    harmed = harmed_s(job)
    down: dict[Port, float] = {}
    found: list[Outage] = []
    for event in job.links:
        port = (event.host, event.nic)
        if not is_used(job, *port) or (event.t_s > harmed and not event.up):
            continue
        if not event.up:
            down.setdefault(port, event.t_s)
        elif port in down:
            found.append(Outage(*port, down.pop(port), event.t_s))
    found += [Outage(*port, since, INF) for port, since in down.items()]
    mattered = (o for o in found if not _went_on(job, o) and not _was_repaired(job, o))
    return sorted(mattered, key=lambda o: (o.since_s, o.host, o.nic))


def went_down(job: Job, host: str, from_s: float, to_s: float) -> LinkChanged | None:
    """Return the first link of ``host`` that was seen to go down within that time."""
    return next((e for e in job.links if _fell(job, e, host) and from_s <= e.t_s <= to_s), None)


def _fell(job: Job, event: LinkChanged, host: str) -> bool:
    return event.host == host and not event.up and is_used(job, host, event.nic)


def was_down_s(job: Job, down: LinkChanged) -> float:
    """Return for how long a link was down that went down with this event (infinity: it stayed so)."""
    port = (down.host, down.nic)
    back = (e.t_s for e in job.links if (e.host, e.nic) == port and e.up and e.t_s >= down.t_s)
    return min(back, default=INF) - down.t_s


def is_powered(job: Job, host: str, after_s: float) -> bool:
    """Did a path test after that time get through to or from ``host``, no link of which had come back?"""
    back_s = min((e.t_s for e in job.links if e.host == host and e.up and e.t_s > after_s), default=INF)
    return any(host in (p.host, p.to) and p.state == "open" and after_s < p.t_s < back_s for p in job.paths)


def _went_on(job: Job, outage: Outage) -> bool:
    """Did operations cross between that host and others after its link came back, or though it was down?"""
    after_s = outage.since_s if outage.until_s > harmed_s(job) else outage.until_s
    if outage.host not in job.hosts:  # that of the store, without which no group forms
        formed = (e for v in job.ranks for e in v.entered if e.op == "init" and e.seq in v.completed)
        return any(e.t_s >= after_s for e in formed)
    return crossed(job, after_s, {outage.host}, {h for h in job.hosts if h != outage.host})


def _was_repaired(job: Job, outage: Outage) -> bool:
    """Had TCP sent again what was lost, long before ranks suffered or, in a job that hangs, were looked at?

    It tries again after 0.2 s and then waits twice as long each time, so after an outage no longer than that
    lasted (RFC 6298).
    """
    harmed = harmed_s(job)
    until = harmed if harmed < INF else max((p.t_s for p in job.paths), default=0.0)
    return until - outage.until_s > outage.until_s - outage.since_s + REPAIRED_S


def crossed(job: Job, after_s: float, these: set[str], those: set[str]) -> bool:
    """Did what a rank on one side handed over after that time arrive on the other side?

    It did where an operation that needs every rank was entered after it on the one side and completed on the
    other.
    """
    entered_here, completed_here = _crossing(job, after_s, these)
    entered_there, completed_there = _crossing(job, after_s, those)
    return bool(entered_here & completed_there or entered_there & completed_here)


_Operation = tuple[str, tuple[int, ...], str, int]


def _crossing(job: Job, after_s: float, hosts: set[str]) -> tuple[set[_Operation], set[_Operation]]:
    entered: set[_Operation] = set()
    completed: set[_Operation] = set()
    for view in (v for v in job.ranks if v.host in hosts):
        done = view.completed
        for event in view.entered:
            if event.op not in SYNCHRONIZING:
                continue
            key = (event.group, event.members, event.op, event.nth)
            if event.t_s >= after_s:
                entered.add(key)
            if event.seq in done:
                completed.add(key)
    return entered, completed


def paths(job: Job) -> list[Paths]:
    """Return what was tested over each interface that matters; of several tests the best one counts: the
    machine that tests may have been too busy to hear an answer in time. What was open before ranks suffered
    may have broken since: a later test says more."""
    harmed = harmed_s(job)
    found: list[Paths] = []
    for nic in dict.fromkeys(p.nic for p in job.paths):
        used = {h for h in {h for p in job.paths for h in (p.host, p.to)} if is_used(job, h, nic)}
        tests = [p for p in job.paths if p.nic == nic and {p.host, p.to} & used]
        best: dict[tuple[str, str], PathState] = {}
        for test in _telling(tests, harmed):
            path = (test.host, test.to)
            best[path] = min(best.get(path, test.state), test.state, key=_BEST.index)
        bad = {path: state for path, state in best.items() if state != "open"}
        tested = frozenset((p.host, p.to) for p in tests)
        hosts = tuple(sorted({h for path in tested for h in path}))
        found.append(Paths(nic, hosts, tested, tuple(sorted(bad.items()))))
    return found


def _telling(tests: list[PathTested], harmed: float) -> list[PathTested]:
    """Of each path the tests after ranks suffered, where there are any; of a job that hangs, the last one."""
    last: dict[tuple[str, str], float] = {}
    for test in tests:
        last[test.host, test.to] = max(last.get((test.host, test.to), 0.0), test.t_s)
    return [t for t in tests if t.t_s >= min(harmed, last[t.host, t.to])]


def is_reached(job: Job, host: str) -> bool:
    """Did some host get through to ``host`` when the paths were tested?"""
    return any(p.to == host and p.state == "open" for p in job.paths)


def told(job: Job) -> dict[str, tuple[str, ...]]:
    """Return the interfaces that the backend uses on each host, where its ranks say so."""
    said: dict[str, dict[str, None]] = {}
    for view in job.ranks:
        if view.identity is not None and view.host:
            said.setdefault(view.host, {}).update(dict.fromkeys(view.identity.interfaces))
    return {host: tuple(names) for host, names in said.items() if names}


def is_used(job: Job, host: str, nic: str) -> bool:
    """May this interface of ``host`` matter? Of the backend it is known which, as far as its ranks say so.

    The store is at the first one: of a host without ranks, and until the process group forms of any.
    """
    known = told(job)
    if not known or nic in known.get(host, ()):
        return True
    first = next((p.nic for p in job.paths if host in (p.host, p.to)), None)
    is_store = host not in job.hosts
    if first is None and is_store:
        return any(nic in names for names in known.values())
    return nic == first and (is_store or not job.has_formed)


def outside(job: Job, view: RankView) -> bool:
    """Was this rank neither in an operation nor had lost one at its end, and has it been in one, or kept
    others waiting for it to come to init?"""
    if view.entered:
        return view.waiting is None and not view.failed
    in_init = any(e.op == "init" and e.seq not in v.completed for v in job.ranks for e in v.entered)
    return in_init and view.fired is None and not view.lost
