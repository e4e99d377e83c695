"""Who waits for whom, where that is no hang: a rank that still moves, or computes for ever, is waited for.

This blames nobody, as a long computation cannot be told from a loop without end (see judge/hang.py). It
says what a user needs to decide that himself. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chaoskit.history import History, Interrupted
from chaoskit.judge import hang, waits
from chaoskit.judge.job import P2P, Job, RankView, names
from chaoskit.judge.wording import bare, called

WORTH_TELLING_S: Final = 2.0
"""A wait that was shorter when the arm was interrupted is an everyday one."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """``said`` in words; ``since_s``: since when they all wait, on the clock of the history."""

    said: str
    since_s: float


def now(job: Job, over_s: float = 0.0) -> Awaited | None:
    """Return what most of the ranks that did not move over ``over_s`` wait for; None where nobody moves."""
    live = [v for v in job.ranks if v.alive_at_deadline]
    moving = {v.slot for v in live if hang.moves(v, over_s)}
    still = [v for v in live if v.slot not in moving]
    return _most(job, still, lambda view: view.slot in moving)


def at_interrupt(history: History) -> Awaited | None:
    """Return what most of the waiting ranks waited for when the arm was interrupted. It tells what was seen,
    also where there were too few looks to say that anybody did not move."""
    event = history.first(Interrupted)
    if event is None:
        return None
    job = Job.of(History.of(tuple(e for e in history.events if e.t_s <= event.t_s)))
    found = _most(job, list(job.ranks), lambda view: view.ended is None)
    return found if found is not None and event.t_s - found.since_s >= WORTH_TELLING_S else None


def _most(job: Job, waiting: list[RankView], counts: Callable[[RankView], bool]) -> Awaited | None:
    groups: dict[tuple[str, tuple[int, ...]], list[tuple[RankView, float]]] = {}
    for view in waiting:
        op = waits.stuck_in(job, view)
        if op is None or view.waiting is None or (op.op in P2P and op.peer < 0):
            continue
        needed = tuple(v.slot for v in waits.missing(job, view, op) if counts(v))
        if needed:
            what = called(op) if op.op in P2P else bare(op)
            groups.setdefault((what, needed), []).append((view, op.t_s))
    if not groups:
        return None
    (what, needed), views = max(groups.items(), key=lambda group: len(group[1]))
    said = f"{names([v.rank for v, _ in views])} {'waits' if len(views) == 1 else 'wait'} in {what}"
    said += f" for {_doing([job.view(slot) for slot in needed])}"
    return Awaited(said, max(t_s for _, t_s in views))


def _doing(needed: list[RankView]) -> str:
    who = names([v.rank for v in needed])
    if len(needed) > 1:
        return who
    (view,) = needed
    where = next((s.site or s.line for s in reversed(view.samples) if s.site or s.line), "")
    what = "which computes" if _computes(view) else "last seen" if where else ""
    return ", ".join(filter(None, (who, " ".join(filter(None, (what, f"at {where}" if where else ""))))))


def _computes(view: RankView) -> bool:
    """Did it use the CPU from one of the last looks to the next?"""
    last = view.samples[-hang.SAMPLES_MIN :]
    if len(last) < 2:
        return False
    return last[-1].cpu_s - last[0].cpu_s > hang.BUSY_SHARE * (last[-1].t_s - last[0].t_s)
