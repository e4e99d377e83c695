"""The frame of an arm's timeline: its processes, when it began, and what its times are counted from. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from chaoskit.arm_record import ArmRecord
from chaoskit.events import (
    ArmEnded,
    ArmStarted,
    DeadlineReached,
    Ended,
    Event,
    Identity,
    Injected,
    Reaped,
    Started,
    Stopped,
)
from chaoskit.model import Culprit, Outcome, Verdict
from chaoskit.reports.wording import end_of


@dataclass(frozen=True, slots=True)
class Process:
    """One row. ``gone``: its end was seen; ``exit`` says how, '' where nobody saw it.

    ``stops``: from when to when it was stopped."""

    slot: int
    rank: int
    host: str
    begin_s: float
    end_s: float
    exit: str
    culprit: bool
    victim: bool
    stops: tuple[tuple[float, float], ...] = ()

    @property
    def name(self) -> str:
        return f"rank {self.rank}"


@dataclass(frozen=True, slots=True)
class Scene:
    """``origin_s``: what times are counted from: the last fault's firing, else the start."""

    begin_s: float
    end_s: float
    origin_s: float
    injected: bool
    deadline_s: float | None
    processes: tuple[Process, ...]

    @property
    def ranks(self) -> dict[int, int]:
        """The rank of each slot."""
        return {p.slot: p.rank for p in self.processes}

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, in order of their ranks; one or none where there is nothing to group."""
        return tuple(dict.fromkeys(p.host for p in self.processes))


@dataclass(slots=True)
class _Seen:
    """What the events say of one slot."""

    begin_s: float = math.inf
    ended: Ended | None = None
    identity: Identity | None = None
    stops: list[Stopped] | None = None


def scene(record: ArmRecord) -> Scene:
    """Return the frame of the arm of ``record``; of an arm without events, one without length."""
    events, verdict = record.recorded.events, record.verdict
    seen = {slot: _Seen() for slot in record.recorded.rows}
    for event in events:
        if event.slot >= 0:
            _note(seen.setdefault(event.slot, _Seen()), event)
    for slot, end in _reaped(record).items():
        if slot in seen and seen[slot].ended is None:
            seen[slot].ended = end
    times = [e.t_s for e in events if isinstance(e, (ArmStarted, Started))] or [e.t_s for e in events[:1]]
    times += [rows.entered_s[0] for rows in record.recorded.rows.values() if rows.entered_s]
    begin_s = min(times, default=0.0)
    end_s = max([begin_s, *_latest(record)])
    fired: dict[int, float] = {}
    for event in events:
        if isinstance(event, Injected):
            fired.setdefault(event.index, event.t_s)
    return Scene(
        begin_s=begin_s,
        end_s=end_s,
        origin_s=max(fired.values(), default=begin_s),
        injected=bool(fired),
        deadline_s=next((e.t_s for e in events if isinstance(e, DeadlineReached) and e.final), None),
        processes=tuple(_process(slot, seen[slot], verdict, begin_s, end_s) for slot in sorted(seen)),
    )


def _note(seen: _Seen, event: Event) -> None:
    match event:
        case Started():
            seen.begin_s = min(seen.begin_s, event.t_s)
        case Ended():
            seen.ended = seen.ended or event
        case Identity():
            seen.identity = seen.identity or event
        case Stopped():
            seen.stops = [*(seen.stops or ()), event]


def _reaped(record: ArmRecord) -> dict[int, Ended]:
    """The ends of ranks that nobody but the reaper of their processes saw."""
    events = record.recorded.events
    slots = {e.pid: e.slot for e in events if isinstance(e, (Started, Identity))}
    ends = [e for e in events if isinstance(e, Reaped) and e.pid in slots]
    return {slots[e.pid]: Ended(e.t_s, slots[e.pid], e.exit_code) for e in ends}


def _latest(record: ArmRecord) -> Iterator[float]:
    events = record.recorded.events
    over = [e.t_s for e in events if isinstance(e, ArmEnded)]
    yield from over
    yield from (e.t_s for e in events[-1:])
    if not over:
        for rows in record.recorded.rows.values():
            yield from rows.entered_s[-1:]
            yield from (t for t in rows.ended_s[-1:] if not math.isnan(t))


def _process(slot: int, seen: _Seen, verdict: Verdict, begin_s: float, end_s: float) -> Process:
    rank = seen.identity.rank if seen.identity is not None and seen.identity.rank >= 0 else slot
    host = seen.identity.host if seen.identity is not None else ""
    over_s = seen.ended.t_s if seen.ended is not None else end_s
    return Process(
        slot=slot,
        rank=rank,
        host=host,
        begin_s=min(max(begin_s, seen.begin_s if math.isfinite(seen.begin_s) else begin_s), end_s),
        end_s=over_s,
        exit=_exit(seen.ended),
        culprit=_is_culprit(rank, host, verdict),
        victim=rank in verdict.victims,
        stops=tuple(_stops(seen.stops or [], over_s)),
    )


def _exit(ended: Ended | None) -> str:
    if ended is None:
        return ""
    return "ended by chaoskit" if ended.by == "supervisor" else end_of(ended.exit_code)


def _is_culprit(rank: int, host: str, verdict: Verdict) -> bool:
    if verdict.outcome is Outcome.NOT_INJECTED:
        return False
    return bool({Culprit("rank", str(rank)), Culprit("host", host)} & set(verdict.culprits))


def at_fault(host: str, verdict: Verdict) -> str:
    """Return what on ``host`` did it, though no rank there did: ``nic docker0``; '' where nothing did."""
    found = []
    for culprit in verdict.culprits:
        if culprit.kind == "nic" and culprit.id.startswith(f"{host} "):
            found.append(f"nic {culprit.id.removeprefix(host).strip()}")
        if culprit.kind == "link" and host in culprit.id.split("–"):
            found.append(str(culprit))
    return ", ".join(found)


def _stops(stops: list[Stopped], end_s: float) -> Iterator[tuple[float, float]]:
    begun: float | None = None
    for event in stops:
        if event.stopped and begun is None:
            begun = event.t_s
        elif not event.stopped and begun is not None:
            yield begun, event.t_s
            begun = None
    if begun is not None:
        yield begun, end_s
