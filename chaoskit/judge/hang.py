"""Hung or slow: from the samples taken before the deadline, is anything still moving?

The rule (measured, see docs/architecture.md): a job hangs when some rank sits in an operation
and every rank it waits for is gone, stopped, in another operation, or outside with no change of
its token and the same innermost line in all samples; or when no live rank moves at all. Neither
an idle CPU nor an unchanged recorder decides alone: a healthy loader wait looks idle, and a
checkpoint writes without collectives. A rank that computes is never called still: then the
verdict is that nothing can be said, not that the job hangs.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaoskit.history import Sampled
from chaoskit.judge.job import Job, RankView, names

BUSY_SHARE = 0.05
"""CPU share of one core (children included) above which a rank counts as moving, whatever its stack says.
A wait in gloo uses 0.3 %."""
SAMPLES_MIN = 3
"""How many looks at a rank are needed before it may be called still."""


@dataclass(frozen=True, slots=True)
class Stillness:
    """What the samples say: ``hung``, and why or what still moves."""

    hung: bool
    reason: str


def moves(view: RankView) -> bool:
    """Return whether a live rank showed progress, or might have: too few samples count as moving."""
    if view.ended is not None and view.ended.by != "supervisor":
        return False
    samples = view.samples[-SAMPLES_MIN:]
    if view.stopped is not None or any(s.state in "TZX" for s in samples[-1:]):
        return False
    if any(s.allowance_s > 0 for s in samples[-1:]):
        return True
    if len(samples) < SAMPLES_MIN:
        return True
    if len({s.token for s in samples}) > 1:
        return True
    share = (samples[-1].cpu_s - samples[0].cpu_s) / max(1e-3, samples[-1].t_s - samples[0].t_s)
    if share > BUSY_SHARE:
        return True  # it computes: one long native call cannot be told from a loop without end
    if view.waiting is not None:
        return False  # retries inside an operation (a name that does not resolve) are no progress
    return _runs(samples, share)


def _runs(samples: tuple[Sampled, ...], share: float) -> bool:
    """Does an idle-looking rank outside any operation, with nothing new recorded, move all the same?"""
    if len({s.io_bytes for s in samples}) > 1:
        return True
    if samples[0].switches >= 0 and len({s.switches for s in samples}) == 1:
        return False  # its main thread was not scheduled once
    return share > 0.0 and len({s.line for s in samples if s.line}) > 1


def judge(job: Job) -> Stillness:
    """Return whether the ranks alive at the deadline hang."""
    live = [v for v in job.ranks if v.alive_at_deadline]
    moving = [v for v in live if moves(v)]
    if not moving:
        return Stillness(True, _still_reason(live))
    for view in live:
        needed = _needed(job, view)
        if needed and view not in moving and not any(n in moving for n in needed):
            op = view.waiting
            assert op is not None
            what = f"{op.op} #{op.nth}" if op.op != "init" else "init"
            return Stillness(
                True,
                f"{names([view.rank])} waits in {what} for {names([n.rank for n in needed])}, not moving",
            )
    return Stillness(False, f"{names([v.rank for v in moving])} still moving at the deadline")


def _needed(job: Job, view: RankView) -> list[RankView]:
    """Return the members that ``view`` waits for: those that have not entered its operation."""
    op = view.waiting
    if op is None:
        return []
    members = op.members or tuple(v.rank for v in job.ranks)
    others = [v for v in job.ranks if v.rank in members and v.slot != view.slot]
    return [
        v
        for v in others
        if not any(e.group == op.group and e.op == op.op and e.nth >= op.nth for e in v.entered)
    ]


def _still_reason(live: list[RankView]) -> str:
    waiting = [v for v in live if v.waiting is not None and v.stopped is None]
    outside = [v for v in live if v.waiting is None and v.stopped is None]
    stopped = [v for v in live if v.stopped is not None]
    parts = []
    if waiting:
        ops = sorted({f"{v.waiting.op} #{v.waiting.nth}" for v in waiting if v.waiting is not None})
        parts.append(f"{names([v.rank for v in waiting])} waiting in {', '.join(ops)}")
    if stopped:
        parts.append(f"{names([v.rank for v in stopped])} stopped")
    if outside:
        parts.append(f"{names([v.rank for v in outside])} outside any collective, not moving")
    return "alive at the deadline: " + "; ".join(parts)
