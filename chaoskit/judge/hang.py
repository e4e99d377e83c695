"""Hung or slow: from the samples taken before the deadline, is anything still moving?

The rule (measured, see docs/architecture.md): a job hangs when some rank sits in an operation
and every rank it waits for is gone, stopped, in another operation, or outside with no change of
its token and the same innermost line in all samples; or when no live rank moves at all. Neither
an idle CPU nor an unchanged recorder decides alone: a healthy loader wait looks idle, and a
checkpoint writes without collectives. A rank that computes is never called still: then the
verdict is that nothing can be said, not that the job hangs.

How far back nothing may have moved is the last three looks, or ``over_s``: nobody knows how long a
user's program takes to its next operation, so there it is the time without progress he allows.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaoskit.history import Entered, Sampled
from chaoskit.judge import waits
from chaoskit.judge.job import P2P, Job, RankView, names
from chaoskit.judge.wording import bare, called

BUSY_SHARE = 0.05
"""CPU share of one core (children included) above which a rank counts as moving, whatever its stack says.
A wait in gloo uses 0.3 %."""
SAMPLES_MIN = 3
"""How many looks at a rank are needed before it may be called still."""
REACH_SHARE = 0.9
"""The looks at a rank must reach back over this share of ``over_s``: of less, too little is known."""
SLICES = 10
"""A rank that computes for one of so many parts of ``over_s`` has moved, though mostly idle."""


@dataclass(frozen=True, slots=True)
class Stillness:
    """What the samples say: ``hung``, and why or what still moves."""

    hung: bool
    reason: str


def moves(view: RankView, over_s: float = 0.0) -> bool:
    """Return whether a live rank showed progress, or might have: too few samples count as moving."""
    if view.ended is not None and view.ended.by != "supervisor":
        return False
    if view.stopped is not None or any(s.state in "TZX" for s in view.samples[-1:]):
        return False
    samples = _window(view.samples, over_s)
    if any(s.allowance_s > 0 for s in samples):
        return True
    if len(samples) < SAMPLES_MIN or samples[-1].t_s - samples[0].t_s < REACH_SHARE * over_s:
        return True
    if len({s.token for s in samples}) > 1:
        return True
    if _computes(samples, over_s):
        return True  # one long native call cannot be told from a loop without end
    if view.waiting is not None:
        # Retries while the group forms (a name that does not resolve) are no progress. Of other operations
        # the newest may be one that nobody waits for, while the script writes a checkpoint.
        return view.waiting.op != "init" and _does_io(samples)
    return _does_io(samples) or _runs(samples)


def _does_io(samples: tuple[Sampled, ...]) -> bool:
    return len({s.io_bytes for s in samples}) > 1


def _window(samples: tuple[Sampled, ...], over_s: float) -> tuple[Sampled, ...]:
    """The looks that reach back over ``over_s`` from the newest, and no fewer than SAMPLES_MIN."""
    before = [i for i, s in enumerate(samples) if s.t_s <= samples[-1].t_s - over_s]
    first = before[-1] if before else 0
    return samples[min(first, max(0, len(samples) - SAMPLES_MIN)) :]


def _computes(samples: tuple[Sampled, ...], over_s: float) -> bool:
    """Did the rank use the CPU in any part of the window that is long enough to tell, or just now?"""
    last = samples[-SAMPLES_MIN:]
    if _share(last[0], last[-1]) > BUSY_SHARE:
        return True
    end = 0
    for start, first in enumerate(samples):
        end = max(end, start + SAMPLES_MIN - 1)
        while end < len(samples) and samples[end].t_s - first.t_s < over_s / SLICES:
            end += 1
        if end < len(samples) and _share(first, samples[end]) > BUSY_SHARE:
            return True
    return False


def _share(first: Sampled, last: Sampled) -> float:
    return (last.cpu_s - first.cpu_s) / max(1e-3, last.t_s - first.t_s)


def _runs(samples: tuple[Sampled, ...]) -> bool:
    """Does an idle-looking rank outside any operation, with nothing new recorded, move all the same?"""
    if samples[0].switches >= 0 and len({s.switches for s in samples}) == 1:
        return False  # its main thread was not scheduled once
    return samples[-1].cpu_s > samples[0].cpu_s and len({s.line for s in samples if s.line}) > 1


def judge(job: Job, over_s: float = 0.0) -> Stillness:
    """Return whether the ranks alive at the deadline hang: did not move over ``over_s`` (see above)."""
    live = [v for v in job.ranks if v.alive_at_deadline]
    moving = [v for v in live if moves(v, over_s)]
    if not moving:
        return Stillness(True, _still_reason(job, live))
    for view in live:
        needed = _needed(job, view)
        if needed and view not in moving and not any(n in moving for n in needed):
            op = waits.stuck_in(job, view)
            assert op is not None
            what = called(op) if op.op in P2P else bare(op)
            return Stillness(
                True,
                f"{names([view.rank])} waits in {what} for {names([n.rank for n in needed])}, not moving",
            )
    return Stillness(False, f"{names([v.rank for v in moving])} still moving at the deadline")


def _needed(job: Job, view: RankView) -> list[RankView]:
    """Return the members that ``view`` waits for: those that have not entered its operation.

    Where it has more than one under way it may be any of them that it sits in: then all of those count.
    Of a send or recv whose peer is not recorded it may be anybody.
    """
    op = waits.stuck_in(job, view)
    if op is None or view.waiting is None:
        return []
    found = {v.slot: v for e in (op, *waits.open_ends(view)) for v in _missing(job, view, e)}
    return list(found.values()) if _missing(job, view, op) else []


def _missing(job: Job, view: RankView, op: Entered) -> list[RankView]:
    if op.op in P2P and op.peer < 0:
        return waits.members(job, view, op)
    return waits.missing(job, view, op)


def _still_reason(job: Job, live: list[RankView]) -> str:
    waiting: dict[str, list[int]] = {}
    outside, stopped = [], []
    for view in live:
        if view.stopped is not None:
            stopped.append(view.rank)
        elif (op := waits.seen_in(job, view) if view.waiting is None else view.waiting) is not None:
            waiting.setdefault(bare(op), []).append(view.rank)
        else:
            outside.append(view.rank)
    parts = [f"{names(ranks)} waiting in {op}" for op, ranks in waiting.items()]
    if stopped:
        parts.append(f"{names(stopped)} stopped")
    if outside:
        parts.append(f"{names(outside)} outside any collective, not moving")
    return "alive at the deadline: " + "; ".join(parts)
