"""The first rank that ended, or stopped, by its own doing.

A victim that fails first is not the culprit: an error that speaks of a lost peer or a timeout,
an exit after a failed operation, or a signal that the launcher or the supervisor sent, is nobody's
own doing. A SIGABRT, and an exit code without any exception seen, count only where nothing
stronger is found, and then only the earliest: victims end like that too.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from chaoskit.judge import grounds
from chaoskit.judge.job import Job, RankView, names
from chaoskit.judge.wording import called, fate, is_at, same
from chaoskit.model import Blame, Culprit, Kind

EVIDENCE_MAX = 2
TOGETHER_S = 0.05
"""Own deaths this close to the first are as guilty as it; later ones may be consequences."""


_NOT_AN_ANSWER = (Kind.KILLED, Kind.OUT_OF_MEMORY, Kind.FROZEN)
"""Never the answer to a launcher's SIGTERM: another signal, the kernel, a stop. A death may be reported
after the peers that noticed it, while its memory is torn down."""


STANDSTILL_SHARE = 0.8
"""No rank entered an operation for this share of the grace after a SIGTERM: the job stood still."""
GRACE_UNKNOWN_S = 0.25


@dataclass(frozen=True, slots=True)
class Cause:
    """A rank ended or stopped by its own doing. ``weak``: victims may end like that too."""

    view: RankView
    t_s: float
    kind: Kind
    reason: str
    weak: bool = False


def find(job: Job) -> Blame | None:
    """Return the rank (or ranks) whose own end came first."""
    if blame := _all_told(job) or _all_alike(job):
        return blame
    sure = strong(job)
    guilty = [c for c in sure if c.kind == sure[0].kind and c.t_s - sure[0].t_s <= TOGETHER_S]
    return _blame(job, guilty) if guilty else None


def weakly(job: Job) -> Blame | None:
    """Return the rank that ended first in a way in which victims may end, too."""
    weak = [c for c in _causes(job) if c.weak]
    return _blame(job, [min(weak, key=lambda c: c.t_s)]) if weak else None


def _blame(job: Job, guilty: list[Cause]) -> Blame:
    first = guilty[0]
    ranks = [c.view.rank for c in guilty]
    return Blame(
        tuple(Culprit("rank", str(r)) for r in sorted(set(ranks))),
        first.kind,
        f"{names(ranks)} {first.reason}{_to_the_others(job, guilty)}",
        first.view.last_line,
        at=grounds.parted(job, first.view),
        likely=first.weak,
        evidence=tuple(e for c in guilty[:EVIDENCE_MAX] for e in evidence(c)),
    )


def evidence(cause: Cause) -> tuple[str, ...]:
    """Return what was seen of an end: the error, the process, whoever sent a signal."""
    view = cause.view
    seen = []
    if view.raised is not None and cause.kind in (Kind.EXCEPTION, Kind.EXITED, Kind.OUT_OF_MEMORY):
        seen.append(grounds.raised(view, view.raised))
    if cause.kind is Kind.FROZEN:
        seen.append(f"rank {view.rank}: stopped{grounds.after(view, cause.t_s)}, and did not go on")
    elif ended := grounds.how_it_ended(view):
        seen.append(f"{ended}; the kernel counted a kill for memory" if _is_oom_kill(view) else ended)
    if cause.weak:
        seen.append(f"nothing stronger is recorded, and who lost rank {view.rank} may end like that, too")
    return tuple(seen)


def _is_oom_kill(view: RankView) -> bool:
    return view.ended is not None and view.ended.oom_kill


def _to_the_others(job: Job, guilty: list[Cause]) -> str:
    """What became of those who were in the operation that the first of them parted in."""
    slots = {c.view.slot for c in guilty}
    others = [v for v in job.ranks if v.slot not in slots]
    at = grounds.parted(job, guilty[0].view)
    event = next((e for v in others for e in v.entered if at is not None and is_at(e, at)), None)
    if event is None:
        return ""
    own = guilty[0].view.last
    it = "it" if own is not None and same(own, event) else called(event)
    said = fate(others, event, len(job.ranks), it)
    return f"; {said}" if said else ""


def unprovoked(job: Job) -> Blame | None:
    """The rank whose error came before any other had failed, ended or was done with its work (and may have
    closed its connections): no peer was lost, whatever it says."""
    raised = sorted((v.raised.t_s, v.slot) for v in job.ranks if v.raised is not None)
    if not raised or len(job.hosts) > 1:
        return None
    at_s, view = raised[0][0], job.view(raised[0][1])
    if view.raised is None or view.raised.category != "peer_lost":
        return None
    others = [v for v in job.ranks if v.slot != view.slot]
    before = [f.t_s for v in others for f in v.failed]
    before += [e.t_s for v in others for e in (v.ended, v.finished) if e is not None]
    if any(t <= at_s for t in before) or any(v.stops for v in others):
        return None
    said = f"raised {view.raised.type}: {' '.join(view.raised.message.split())[:160]}"
    return Blame(
        (Culprit("rank", str(view.rank)),),
        Kind.EXCEPTION,
        f"rank {view.rank} {said}, before any other rank had failed or ended",
        view.last_line,
        likely=True,
        evidence=(f"rank {view.rank} {said}",),
    )


def strong(job: Job) -> list[Cause]:
    """Return the ends and stops that no victim has, in order of time."""
    return sorted((c for c in _causes(job) if not c.weak), key=lambda c: c.t_s)


def exits(job: Job) -> list[Cause]:
    """Return the exits with a code of its own of ranks in which nothing had failed."""
    return [c for c in _causes(job) if c.weak and c.kind is Kind.EXITED]


def _causes(job: Job) -> list[Cause]:
    return [c for c in (_cause(job, v) for v in job.ranks) if c is not None]


def _all_told(job: Job) -> Blame | None:
    """The whole job was told to end: no rank is at fault."""
    if not job.ranks or not all(job.told_from_outside(v) for v in job.ranks):
        return None
    return Blame(kind=Kind.KILLED, reason="every rank was told to end from outside the job")


def _all_alike(job: Job) -> Blame | None:
    """All ranks did the same thing at the same place of the program: none of them only suffered from it."""
    if len({_own_way(v) for v in job.ranks}) != 1 or _own_way(job.ranks[0]) is None:
        return None
    causes = [c for v in job.ranks if (c := _own_error(job, v) or _own_end(job, v)) is not None]
    if len(causes) < len(job.ranks):
        return None
    first = min(causes, key=lambda c: c.t_s)
    culprits = tuple(Culprit("rank", str(r)) for r in sorted({c.view.rank for c in causes}))
    return Blame(
        culprits,
        first.kind,
        f"every rank {first.reason}",
        first.view.last_line,
        at=grounds.parted(job, first.view),
        evidence=("all ranks did the same at the same place", *evidence(first)),
    )


def _own_way(view: RankView) -> tuple[object, ...] | None:
    """What a rank did to end, numbers of ranks and devices in its words aside; None if it is a victim."""
    if view.fired is not None or view.signals or view.failed:
        return None
    done = len(view.entered) + view.lost + view.left_out
    if (raised := view.raised) is not None:
        return raised.type, re.sub(r"\d+", "#", raised.message), raised.site, raised.category, done
    return (view.exit_code, done) if view.ended_itself and (view.exit_code or 0) > 0 else None


def _cause(job: Job, view: RankView) -> Cause | None:
    told = view.signalled
    if told is not None and job.told_from_outside(view):
        name = signal.Signals(told.signal).name
        return Cause(view, told.t_s, Kind.KILLED, f"was told to end by {name} from outside the job")
    cause = _own_error(job, view) or _stop(view)
    if cause is None and not job.ended_by_launcher(view):
        cause = _own_end(job, view)
    if cause is None or cause.kind in _NOT_AN_ANSWER:
        return cause
    if view.signalled is not None and view.signalled.t_s <= cause.t_s:
        return None  # what it raised or returned after the launcher's signal was the answer to it
    return cause


def _own_error(job: Job, view: RankView) -> Cause | None:
    raised = view.raised
    if _was_told_to_end(job, view) and not _was_stuck(job, view):
        assert view.fired is not None
        return Cause(view, view.fired.t_s, Kind.KILLED, "was told to end by SIGTERM")
    if view.fired is not None and view.fired.guard == "oom_exit":
        return Cause(view, view.fired.t_s, Kind.OUT_OF_MEMORY, "ran out of memory")
    if raised is None or raised.category not in ("own", "out_of_memory"):
        return None
    text = " ".join(raised.message.split())[:160]
    if raised.category == "out_of_memory":
        return Cause(view, raised.t_s, Kind.OUT_OF_MEMORY, f"ran out of memory ({raised.type}: {text})")
    if raised.type == "SystemExit":
        return Cause(view, raised.t_s, Kind.EXITED, f"called sys.exit({text!r})")
    return Cause(view, raised.t_s, Kind.EXCEPTION, f"raised {raised.type}: {text}")


def _was_told_to_end(job: Job, view: RankView) -> bool:
    """Did a SIGTERM from outside the job end this rank? One of its launcher makes it a victim."""
    if view.fired is None or view.fired.guard != "sigterm_exit":
        return False
    if job.external and job.lost_before(view, view.fired.t_s):
        return False
    return view.signalled is None or view.signalled.t_s > view.fired.t_s


def _was_stuck(job: Job, view: RankView) -> bool:
    """Had the job stood still when this rank ended? Then its end is not what stopped the job."""
    fired = view.fired
    if fired is None:
        return False
    moved = [e.t_s for v in job.ranks for e in v.entered if e.t_s < fired.t_s]
    return not moved or fired.t_s - max(moved) > STANDSTILL_SHARE * _grace_s(view)


def _grace_s(view: RankView) -> float:
    """How long the guard waits after the SIGTERM, as it said when it was armed."""
    for armed in view.armed:
        for text in armed.effective if armed.guard == "sigterm_exit" else ():
            if match := re.fullmatch(r"grace=([\d.e+-]+)s", text):
                return float(match[1])
    return GRACE_UNKNOWN_S


def _stop(view: RankView) -> Cause | None:
    if view.stopped is None:
        return None
    return Cause(view, view.stopped.t_s, Kind.FROZEN, f"was stopped{_place(view)}")


def _own_end(job: Job, view: RankView) -> Cause | None:
    ended = view.ended
    if ended is None or not view.ended_itself or view.is_victim_by_error or view.fired is not None:
        return None
    if view.outlived and job.external:
        return None  # whoever ended the launcher at the deadline ended its ranks
    code = ended.exit_code
    if code == 0:
        if view.finished is not None or all(v.exit_code == 0 for v in job.ranks):
            return None
        return Cause(view, ended.t_s, Kind.LEFT_EARLY, f"left early with exit 0{_place(view)}")
    if ended.oom_kill:
        return Cause(
            view, ended.t_s, Kind.OUT_OF_MEMORY, f"was killed by the kernel for memory{_place(view)}"
        )
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        weak = code == -signal.SIGABRT
        return Cause(view, ended.t_s, Kind.KILLED, f"was ended by {name}{_place(view)}", weak)
    return Cause(view, ended.t_s, Kind.EXITED, f"exited with {code}{_place(view)}", weak=True)


def _place(view: RankView) -> str:
    if view.last is None:
        return " before its first operation"
    where = "in" if view.waiting is not None else "after"
    return f" {where} {view.last.op} #{view.last.nth}" if view.last.op != "init" else f" {where} init"
