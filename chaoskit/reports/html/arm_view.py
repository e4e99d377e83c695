"""From the record of an arm to what the page shows of it, at a level of detail. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaoskit.arm_record import ArmRecord
from chaoskit.events import Sampled
from chaoskit.evidence.findings import Socket
from chaoskit.model import Outcome, RankEnd, Status, Verdict
from chaoskit.reports.html import marks as marks_of
from chaoskit.reports.html import promises, settings, stacks
from chaoskit.reports.html.lanes import Lane, lanes
from chaoskit.reports.html.level import Level
from chaoskit.reports.html.marks import Mark
from chaoskit.reports.html.scene import Process, Scene, scene
from chaoskit.reports.html.views import ArmView, Badge, MomentRow, Output, RankRow, SocketRow
from chaoskit.reports.wording import (
    Fact,
    culprits_of,
    latency_of,
    operation,
    outcome_of,
    production_bound_of,
    ranks_of,
    reason_of,
    seconds,
    words,
)

MARKS = {
    "pass": "✓", "held": "✓", "fail": "✗", "not_held": "✗", "inconclusive": "?", "skipped": "–",
    "not_needed": "○",
}  # fmt: skip


def badge(value: str, said: str = "") -> Badge:
    """Return the badge of a status or a result; ``said`` in other words than its own."""
    return Badge(value.replace("_", "-"), MARKS.get(value, "•"), said or words(value))


@dataclass(frozen=True, slots=True)
class Prepared:
    """What all levels of detail of an arm start from."""

    record: ArmRecord
    scene: Scene
    marks: tuple[Mark, ...]
    lanes: Mapping[int, Lane]


def prepare(record: ArmRecord) -> Prepared:
    """Do what is the same for every level, once."""
    frame = scene(record)
    ends = {p.slot: p.end_s for p in frame.processes}
    marks = marks_of.find(record.recorded.events)
    return Prepared(record, frame, marks, lanes(record.recorded, frame.ranks, ends))


def view(prepared: Prepared, number: int, level: Level, profile: int, folded: bool) -> ArmView:
    """Return what is shown of the arm. ``number``: its place in the page; ``profile``: its profile's."""
    record, frame = prepared.record, prepared.scene
    verdict, plan = record.verdict, record.plan
    events = record.recorded.events
    moments, ranks = tuple(_moments(prepared)), tuple(_ranks(prepared))
    sites = frozenset(filter(None, [verdict.where, *(e.site for e in events if isinstance(e, Sampled))]))
    guilty = frozenset(p.slot for p in frame.processes if p.culprit)
    suffered = frozenset(p.slot for p in frame.processes if p.victim)
    compared = stacks.compare(record.findings, frame.ranks, guilty, sites, suffered)
    sockets, output = tuple(_sockets(prepared)), tuple(_output(prepared, level.lines))
    return ArmView(
        number=number,
        badge=badge(verdict.status),
        fine=verdict.status in (Status.PASS, Status.SKIPPED),
        folded=folded,
        scenario=verdict.scenario,
        arm=arm_name(verdict),
        headline=" · ".join(filter(None, headline(verdict))),
        problems=_texts(record.problems, level),
        cause=_text(verdict.cause or verdict.reason, level),
        facts=tuple((label, _text(value, level)) for label, value in _facts(prepared)),
        evidence=_texts(verdict.evidence[: level.evidence], level),
        notes=_texts(verdict.notes[: level.evidence], level),
        promises=promises.lines(plan, plan.contract, verdict, events) if plan is not None else (),
        hardened=_hardened(record),
        promises_unknown=_promises_unknown(record),
        since="the injection" if frame.injected else "the start",
        moments=_both_ends(moments, level.moments),
        ranks=ranks[: level.ranks],
        has_hosts=len(frame.hosts) > 1,
        stacks=stacks.cut(compared, level.columns, level.frames, level.others),
        no_stacks=_no_stacks(prepared, compared),
        sockets=sockets[: level.sockets],
        quiet_sockets=sum(_is_quiet(s) for f in record.findings for s in f.sockets),
        output=output[: level.outputs],
        settings=tuple(settings.facts(plan, verdict)) if plan is not None and level.guards else (),
        profile=profile,
        profile_name=verdict.profile,
        guards=settings.in_effect(events) if level.guards else (),
        rerun=verdict.rerun,
        cut=tuple(
            _cut(
                [
                    (len(verdict.evidence), level.evidence, "line of evidence", "lines of evidence"),
                    (len(moments), level.moments, "event", "events"),
                    (len(ranks), level.ranks, "rank in words", "ranks in words"),
                    (len(compared.columns), level.columns, "different stack", "different stacks"),
                    (len(compared.others), level.others, "other thread", "other threads"),
                    (len(sockets), level.sockets, "socket", "sockets"),
                    (len(output), level.outputs, "output", "outputs"),
                ]
            )
        ),
    )


def _text(text: str, level: Level) -> str:
    return text if len(text) <= level.text else text[: level.text] + " …"


def _texts(texts: tuple[str, ...], level: Level) -> tuple[str, ...]:
    return tuple(_text(text, level) for text in texts)


def arm_name(verdict: Verdict) -> str:
    """Return the arm with its repeat and attempt, where there are several."""
    repeat = f", repeat {verdict.repeat}" if verdict.repeat > 1 else ""
    attempt = f", attempt {verdict.attempt}" if verdict.attempt > 1 else ""
    return verdict.arm + repeat + attempt


def headline(verdict: Verdict) -> tuple[str, str, str]:
    """Return outcome, latency and culprit in a few words each."""
    return outcome_of(verdict), latency_of(verdict), culprits_of(verdict)


def _facts(prepared: Prepared) -> Iterator[Fact]:
    verdict = prepared.record.verdict
    yield "outcome", outcome_of(verdict)
    if verdict.culprits:
        sure = f", {words(verdict.sureness)}" if verdict.sureness is not None else ""
        yield "culprit", f"{culprits_of(verdict)}{sure if not verdict.ambiguous else ''}"
    if verdict.where:
        yield "where", verdict.where
    if verdict.at is not None:
        yield "parted from the others in", operation(verdict.at)
    if verdict.victims:
        yield "victims", f"{ranks_of(verdict.victims)}: failed or waited for want of another"
    if verdict.ended_by:
        yield "ended by", " + ".join(verdict.ended_by)
    elif verdict.outcome in (Outcome.HUNG, Outcome.OVERDUE):
        yield "ended by", "nothing: chaoskit ended it at the deadline"
    if latency := latency_of(verdict):
        yield "latency of bound" if " of " in latency else "latency", latency
    if production := production_bound_of(verdict):
        yield (
            "in production",
            f"bound {production.removeprefix('in production ')} (extrapolated, not measured)",
        )
    if verdict.stragglers:
        yield "the others waited for", ", ".join(map(str, verdict.stragglers))
    if verdict.bites is not None and verdict.arm == "control":
        yield "the fault bites", "yes: without hardening the contract is broken" if verdict.bites else "no"
    if verdict.cause and (reason := reason_of(verdict)) != verdict.cause:
        yield "reason", reason


def _hardened(record: ArmRecord) -> tuple[promises.Promise, ...]:
    plan = record.plan
    if plan is None or plan.contract == plan.hardened_contract or record.verdict.bites is None:
        return ()
    return promises.lines(plan, plan.hardened_contract, record.verdict, record.recorded.events)


def _promises_unknown(record: ArmRecord) -> str:
    if record.plan is None:
        return "The plan cannot be read: what was promised is not known."
    if record.verdict.outcome is None:
        return "Nothing can be said of the contract: the arm has no outcome."
    return ""


def _no_stacks(prepared: Prepared, compared: stacks.Stacks) -> str:
    if compared.columns or not prepared.scene.processes:
        return ""
    if prepared.scene.deadline_s is None:
        return "All ranks had ended before the deadline, so no stacks were taken."
    return "No stacks could be had at the deadline."


# ---------------------------------------------------------------- rows


def _moments(prepared: Prepared) -> Iterator[MomentRow]:
    origin_s = prepared.scene.origin_s
    for moment in marks_of.course(prepared.marks, prepared.scene.ranks):
        first, last = _signed(moment.from_s - origin_s), _signed(moment.until_s - origin_s)
        when = first if first == last else f"{first} to {last}"
        yield MomentRow(moment.kind, when, moment.who, moment.text)


def _signed(value_s: float) -> str:
    return f"{'+' if value_s >= 0 else '−'}{seconds(abs(value_s))}"


def _both_ends(rows: tuple[MomentRow, ...], most: int) -> tuple[MomentRow, ...]:
    """Return the first and the last of ``rows``, and between them how many are not shown."""
    if len(rows) <= most:
        return rows
    left = MomentRow("other", "…", "", f"{len(rows) - most} more are not shown")
    return (*rows[: most // 2], left, *rows[len(rows) - (most - most // 2) :])


def _ranks(prepared: Prepared) -> Iterator[RankRow]:
    verdict = prepared.record.verdict
    ends: dict[int, RankEnd] = {}
    for end in verdict.ranks:
        ends.setdefault(end.rank, end)
    for process in prepared.scene.processes:
        yield _rank(process, ends.get(process.rank), prepared)


def _rank(process: Process, end: RankEnd | None, prepared: Prepared) -> RankRow:
    lane = prepared.lanes.get(process.slot)
    waiting_s = sum(lane.waited_s) - sum(lane.rows.entered_s) if lane is not None else 0.0
    working_s = sum(lane.ends_s) - sum(lane.waited_s) if lane is not None else 0.0
    last = end.last if end is not None else None
    return RankRow(
        name=process.name,
        host=process.host,
        role="culprit" if process.culprit else "victim" if process.victim else "",
        end=process.exit or "its end was not seen",
        ended=_signed(process.end_s - prepared.scene.origin_s) if process.exit else "",
        last=operation(last) if last is not None else "none",
        operations=len(lane.ends_s) if lane is not None else 0,
        waiting=seconds(max(0.0, waiting_s)),
        working=seconds(max(0.0, working_s)),
    )


def _sockets(prepared: Prepared) -> Iterator[SocketRow]:
    ranks = prepared.scene.ranks
    for found in prepared.record.findings:
        for one in found.sockets:
            if _is_quiet(one):
                continue
            peer = f"rank {ranks.get(one.peer, one.peer)}" if one.peer is not None else ""
            other = " ".join(filter(None, [one.what if one.what != "peer" else "", peer])) or one.remote
            me = f"rank {ranks.get(found.slot, found.slot)}"
            yield SocketRow(me, other, one.state, _bytes(one.send_queue), _bytes(one.receive_queue))


def _is_quiet(one: Socket) -> bool:
    return one.state in ("ESTABLISHED", "LISTEN") and not one.send_queue and not one.receive_queue


def _bytes(count: int) -> str:
    return f"{count}" if count < 10_000 else f"{count / 1024:.0f} KiB"


def _output(prepared: Prepared, lines: int) -> Iterator[Output]:
    """What processes printed last, culprits first; those that printed the same together."""
    ranks, guilty = prepared.scene.ranks, [p.slot for p in prepared.scene.processes if p.culprit]
    slots: dict[tuple[str, ...], list[int]] = {}
    for found in prepared.record.findings:
        if printed := prepared.record.output.get(f"rank {found.slot}"):
            slots.setdefault(printed, []).append(found.slot)
    ordered = sorted(slots.items(), key=lambda p: not set(p[1]) & set(guilty))
    for printed, those in ordered:
        yield Output(ranks_of(ranks.get(s, s) for s in those), _last(printed, lines))
    if said := prepared.record.output.get("launcher"):
        yield Output("launcher", _last(said, lines))


def _last(printed: tuple[str, ...], lines: int) -> tuple[str, ...]:
    return printed[max(0, len(printed) - lines) :] if lines else ()


def _cut(counted: Sequence[tuple[int, int, str, str]]) -> Iterator[str]:
    for there, shown, one, many in counted:
        if there > shown:
            yield f"{there - shown} more {one if there - shown == 1 else many}"
