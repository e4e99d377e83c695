"""What happened to the job: one of the outcomes of the design, with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from chaoskit.history import (
    DeadlineReached,
    Ended,
    History,
    Injected,
    Interrupted,
    Malfunction,
    Started,
)
from chaoskit.judge import hang
from chaoskit.judge.job import Job, RankView, names
from chaoskit.model import ALL_RANKS, Injection, Outcome, Plan

RESULT_TOLERANCE = 1e-4
"""Relative: float32 sums in another order differ by less, a shifted operation by far more."""


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome; ``unjudgeable`` says why no verdict may be drawn from this arm, or is empty."""

    outcome: Outcome | None
    reason: str
    unjudgeable: str = ""


def find(plan: Plan, history: History) -> Found:
    """Return what happened."""
    for event in history.all(Malfunction):
        return Found(None, event.message, unjudgeable=event.message)
    if history.all(Interrupted):
        return Found(None, "interrupted", unjudgeable="interrupted before the arm ended")
    job = Job.of(history)
    if not job.ranks:
        return Found(None, "no rank was started", unjudgeable="no rank was started")
    unended = [v for v in job.ranks if v.ended is None]
    if unended:
        why = f"the history ends while {names([v.rank for v in unended])} had not ended"
        return Found(None, why, unjudgeable=why)
    if damage := _damage(plan, history, job):
        return Found(None, damage, unjudgeable=damage)
    missing = not_fired(plan, history)
    if missing and not _healthy_job_failed(plan, job):
        return Found(Outcome.NOT_INJECTED, missing)
    if any(v.alive_at_deadline for v in job.ranks):
        return _at_deadline(job, history)
    return _ended(plan, job)


def _damage(plan: Plan, history: History, job: Job) -> str:
    """Say what of the history is missing or twice, as far as it shows: it must not be judged then."""
    planned = {r.slot for r in plan.ranks}
    if {v.slot for v in job.ranks} != planned:
        return f"the history knows {len(job.ranks)} processes, the plan {len(planned)}"
    if len(history.all(Ended)) != len(planned):
        return "the history has not one end for each process"
    for view in job.ranks:
        seqs = [e.seq for e in view.entered]
        if not view.lost and sorted(seqs) != list(range(1, len(seqs) + 1)):
            return f"operations of rank {view.rank} are missing in the history, or twice in it"
    return ""


def _healthy_job_failed(plan: Plan, job: Job) -> bool:
    """A healthy job that its own profile ended before the (harmless) fault could fire has failed."""
    return (
        plan.healthy
        and all(v.ended_itself or v.signalled for v in job.ranks)
        and any(v.exit_code != 0 for v in job.ranks)
    )


def targets(plan: Plan, injection: Injection) -> tuple[int, ...]:
    """Return the slots an injection aims at."""
    wanted = injection.fault.rank
    slots = tuple(r.slot for r in plan.ranks)
    return slots if wanted == ALL_RANKS else tuple(s for s in slots if s in wanted)


def not_fired(plan: Plan, history: History) -> str:
    """Return which faults never fired and how far the run got, or an empty text."""
    fired = {e.index for e in history.all(Injected)}
    started = {e.slot for e in history.all(Started)}
    lines = []
    for index, injection in enumerate(plan.injections):
        aimed = targets(plan, injection)
        by_launch = injection.when.kind == "launch" and started.issuperset(aimed)
        if index not in fired and not by_launch:
            lines.append(f"{injection.fault.name} on {_rank_set(injection)} never fired ({injection.when})")
    if not lines:
        return ""
    job = Job.of(history)
    said = [(e.t_s, v.rank, e) for v in job.ranks for e in (v.fired, v.raised) if e is not None]
    if said:
        _, rank, event = min(said, key=lambda entry: entry[0])
        what = " ".join(event.message.split())[:160]
        lines.append(f"before that, rank {rank}: {what or 'an error without a message'}")
    reach = "; ".join(_reach(v, targets(plan, plan.injections[0])) for v in job.ranks if v.last is not None)
    return f"{'; '.join(lines)}; furthest: {reach or 'no operation entered'}"


def _rank_set(injection: Injection) -> str:
    wanted = injection.fault.rank
    return "all ranks" if wanted == ALL_RANKS else names(wanted)


def _reach(view: RankView, aimed: tuple[int, ...]) -> str:
    counts: dict[str, int] = {}
    for event in view.entered:
        counts[event.op] = max(counts.get(event.op, 0), event.nth)
    listed = ", ".join(f"{op} {n}" for op, n in sorted(counts.items()))
    step = view.entered[-1].step
    return (
        f"rank {view.rank} step {step} ({listed})" if view.slot in aimed else f"rank {view.rank} step {step}"
    )


def _at_deadline(job: Job, history: History) -> Found:
    live = [v for v in job.ranks if v.alive_at_deadline]
    if not any(d.final for d in history.all(DeadlineReached)):
        why = "ranks were ended before the deadline"
        return Found(None, why, unjudgeable=why)
    stillness = hang.judge(job)
    if not stillness.hung:
        return Found(Outcome.OVERDUE, stillness.reason, unjudgeable=f"overdue: {stillness.reason}")
    if all(v.finished is not None for v in live):
        return Found(
            Outcome.HUNG, f"{names([v.rank for v in live])} hung in teardown after the work was done"
        )
    return Found(Outcome.HUNG, stillness.reason)


def _ended(plan: Plan, job: Job) -> Found:
    wrong = [v for v in job.ranks if v.exit_code == 0 and is_wrong(plan, v)]
    if wrong:
        values = ", ".join(f"rank {v.rank}: {v.reported.value:g}" for v in wrong if v.reported)
        said = f"{names([v.rank for v in wrong])} ended 0 with a wrong result"
        return Found(Outcome.CORRUPTED, f"{said} ({values}; right: {plan.expected_result:g})")
    bad = [v for v in job.ranks if v.exit_code != 0]
    if bad:
        return Found(Outcome.FAILED, f"all ranks ended, {names([v.rank for v in bad])} nonzero")
    undone = [v for v in job.ranks if v.finished is None]
    if undone:
        return Found(
            Outcome.MASKED, f"all ranks ended 0, but {names([v.rank for v in undone])} did not finish"
        )
    unreported = [v for v in job.ranks if plan.expected_result is not None and v.reported is None]
    if unreported:
        return Found(
            Outcome.MASKED, f"all ranks ended 0, but {names([v.rank for v in unreported])} gave no result"
        )
    checked = "result right" if plan.expected_result is not None else "result: unchecked"
    return Found(Outcome.COMPLETED, f"all ranks ended 0, {checked}")


def is_wrong(plan: Plan, view: RankView) -> bool:
    """Return whether this rank's reported result differs from the known one (NaN is wrong)."""
    if plan.expected_result is None or view.reported is None:
        return False
    allowed = RESULT_TOLERANCE * max(1.0, abs(plan.expected_result))
    return not abs(view.reported.value - plan.expected_result) <= allowed
