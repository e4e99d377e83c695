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
    Stepped,
)
from chaoskit.judge import awaited, hang, program, replicas
from chaoskit.judge.job import Job, RankView, names, settled
from chaoskit.judge.rules import divergence
from chaoskit.model import ALL_RANKS, Injection, Outcome, Plan
from chaoskit.network import STORE_HOST

RESULT_TOLERANCE = 1e-4
"""Relative: float32 sums in another order differ by less, a shifted operation by far more."""
LAUNCHER_END_S = 10.0
"""How long a launcher may take to end after its last rank, on a loaded machine too."""


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
        return Found(None, "interrupted", unjudgeable=_interrupted(history))
    history = settled(history)
    job = Job.of(history)
    if why := program.unlike_the_plan(plan, history, job):
        return Found(None, why, unjudgeable=why)
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
        return _at_deadline(plan, job, history)
    if why := program.independent(plan, job):
        return Found(None, why, unjudgeable=why)
    return _ended(plan, job, history)


def _interrupted(history: History) -> str:
    why, found = "interrupted before the arm ended", awaited.at_interrupt(history)
    if found is None:
        return why
    waited_s = max(e.t_s for e in history.all(Interrupted)) - found.since_s
    return f"{why}: {found.said}, for {waited_s:.0f} s"


def _damage(plan: Plan, history: History, job: Job) -> str:
    """Say what of the history is missing or twice, as far as it shows: it must not be judged then."""
    planned = {r.slot for r in plan.ranks}
    if {v.slot for v in job.ranks} != planned:
        return f"the history knows {len(job.ranks)} processes, the plan {len(planned)}"
    if len(history.all(Ended)) != len(planned):
        return "the history has not one end for each process"
    for view in job.ranks:
        seqs = [e.seq for e in view.entered]
        if not view.lost and not _are_whole(seqs, view.left_out):
            return f"operations of rank {view.rank} are missing in the history, or twice in it"
    return ""


def _are_whole(seqs: list[int], left_out: int) -> bool:
    """Is each number there once, but for so many?"""
    count = len(seqs) + left_out
    return len(set(seqs)) == len(seqs) and (not seqs or (min(seqs) >= 1 and max(seqs) == count))


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


def ordered_to_die(plan: Plan, injection: Injection) -> tuple[int, ...]:
    """Return the slots that an injection may end by a signal: its targets, or all on the host it hits."""
    fault = injection.fault
    aimed = targets(plan, injection)
    if not fault.ends_by_signal:
        return ()
    if not getattr(fault, "host_wide", False):
        return aimed
    hosts = {r.host for r in plan.ranks if r.slot in aimed}
    if named := getattr(fault, "host", ""):
        store = plan.network.store if plan.network is not None else ""
        hosts = {store if named == STORE_HOST else named}
    return tuple(r.slot for r in plan.ranks if r.host in hosts)


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
    steps = {e.slot: e.step for e in history.all(Stepped)}
    aimed = targets(plan, plan.injections[0])
    seen = [v for v in job.ranks if v.last is not None or v.slot in steps]
    reach = "; ".join(_reach(v, v.slot in aimed, steps.get(v.slot, 0)) for v in seen)
    if not reach:
        reach = "no operation entered" if plan.workload.is_built_in else "never called init_process_group"
    return f"{'; '.join(lines)}; furthest: {reach}"


def _rank_set(injection: Injection) -> str:
    wanted = injection.fault.rank
    return "all ranks" if wanted == ALL_RANKS else names(wanted)


def _reach(view: RankView, aimed: bool, steps: int) -> str:
    """``steps``: optimizer steps that were done; the operations entered after it are of the next."""
    step = max(steps, view.last.step if view.last is not None else 0)
    if not aimed:
        return f"rank {view.rank} step {step}"
    counts: dict[str, int] = {}
    for event in view.entered:
        name = event.op if event.group == "default" else f"{event.op} of {event.group}"
        counts[name] = max(counts.get(name, 0), event.nth)
    listed = ", ".join(f"{op} {n}" for op, n in sorted(counts.items()))
    return f"rank {view.rank} step {step} ({listed or 'no operation'})"


def _at_deadline(plan: Plan, job: Job, history: History) -> Found:
    live = [v for v in job.ranks if v.alive_at_deadline]
    final = next((d for d in history.all(DeadlineReached) if d.final), None)
    if final is None:
        why = "ranks were ended before the deadline"
        return Found(None, why, unjudgeable=why)
    stillness = hang.judge(job, still_over_s(plan, history, final))
    if not stillness.hung:
        found = awaited.now(job, still_over_s(plan, history, final))
        reason = stillness.reason if found is None else f"{stillness.reason}: {found.said}"
        return Found(Outcome.OVERDUE, reason, unjudgeable=f"overdue: {reason}")
    if all(v.work_done for v in live):
        return Found(
            Outcome.HUNG, f"{names([v.rank for v in live])} hung in teardown after the work was done"
        )
    return Found(Outcome.HUNG, stillness.reason)


def still_over_s(plan: Plan, history: History, final: DeadlineReached) -> float:
    """Return how long nothing may have moved for a hang. A user's program may rest for as long as he allows,
    until the last fault has fired."""
    if final.over_s > 0.0 or plan.stall_s is None:
        return final.over_s
    fired = {e.index for e in history.all(Injected)}
    return plan.stall_s if len(fired) < len(plan.injections) or not plan.injections else 0.0


def _ended(plan: Plan, job: Job, history: History) -> Found:
    wrong = [v for v in job.ranks if v.exit_code == 0 and is_wrong(plan, v)]
    if wrong:
        values = ", ".join(f"rank {v.rank}: {v.reported.value:g}" for v in wrong if v.reported)
        said = f"{names([v.rank for v in wrong])} ended 0 with a wrong result"
        return Found(Outcome.CORRUPTED, f"{said} ({values}; right: {plan.expected_result:g})")
    bad = [v for v in job.ranks if v.exit_code != 0]
    if job.launcher is not None and (found := _launcher_ended(job, bad)):
        return found
    if bad:
        return Found(Outcome.FAILED, f"all ranks ended, {names([v.rank for v in bad])} nonzero")
    compared = replicas.compare(job)
    if compared.difference is not None:
        odd = names(compared.difference.odd)
        said = f"all ranks ended 0, but the replicas differ {compared.difference.when} ({odd})"
        return Found(Outcome.CORRUPTED, said)
    if plan.expected_result is None and divergence.garbled(job):
        return Found(Outcome.CORRUPTED, _but("an operation completed that was not the same on all of them"))
    if found := _unfinished(plan, history, job):
        return found
    unreported = [v for v in job.ranks if plan.expected_result is not None and v.reported is None]
    if unreported:
        return Found(
            Outcome.MASKED, f"all ranks ended 0, but {names([v.rank for v in unreported])} gave no result"
        )
    return Found(
        Outcome.COMPLETED, f"all ranks ended 0, {_checked(plan, compared)}", unjudgeable=compared.doubt
    )


def _unfinished(plan: Plan, history: History, job: Job) -> Found | None:
    """Work that was left undone, though all ranks ended 0, as far as it shows."""
    undone = [v for v in job.ranks if v.finished is None]
    left = f"{names([v.rank for v in undone])} did not finish" if undone else ""
    if undone and not program.may_leave(plan, history, job):
        return Found(Outcome.MASKED, _but(left))
    if plan.workload.is_built_in:
        return None
    swallowed, went_on = program.swallowed(job)
    if swallowed and not program.tried_alike(job):
        if not went_on:
            return Found(Outcome.MASKED, _but(swallowed))
        why = f"{_but(swallowed)}: whether all work was done afterwards cannot be told"
        return Found(Outcome.COMPLETED, why, unjudgeable=why)
    if apart := program.stopped_apart(job):
        return Found(Outcome.MASKED, _but(f"{left}: {apart}" if left else apart))
    if undone and program.only_p2p(job):
        why = f"{_but(left)}, and no collective tells whether it was done with its work"
        return Found(Outcome.COMPLETED, why, unjudgeable=why)
    return None


def _but(what: str) -> str:
    return f"all ranks ended 0, but {what}"


def _launcher_ended(job: Job, bad: list[RankView]) -> Found | None:
    """What the launcher made of the ends of its ranks: its exit code is the job's."""
    assert job.launcher is not None
    said = program.last_line(job.launcher.said)
    if job.launcher.by == "supervisor":
        why = "all ranks ended, but their launcher did not"
        waited_s = job.launcher.t_s - max(v.ended.t_s for v in job.ranks if v.ended is not None)
        hung = waited_s > LAUNCHER_END_S
        return Found(Outcome.HUNG if hung else Outcome.OVERDUE, why, unjudgeable="" if hung else why)
    if bad and job.launcher.exit_code == 0:
        ranks = names([v.rank for v in bad])
        return Found(Outcome.MASKED, f"the launcher ended 0, though {ranks} ended nonzero")
    if not bad and job.launcher.exit_code != 0:
        return Found(
            Outcome.FAILED, f"all ranks ended 0, but the launcher with {job.launcher.exit_code}{said}"
        )
    return None


def _checked(plan: Plan, compared: replicas.Comparison) -> str:
    if plan.expected_result is not None:
        return "result right"
    if compared.checks:
        return f"replicas equal at {compared.checks} check{'s' if compared.checks > 1 else ''}"
    return "result: unchecked"


def is_wrong(plan: Plan, view: RankView) -> bool:
    """Return whether this rank's reported result differs from the known one (NaN is wrong)."""
    if plan.expected_result is None or view.reported is None:
        return False
    allowed = RESULT_TOLERANCE * max(1.0, abs(plan.expected_result))
    return not abs(view.reported.value - plan.expected_result) <= allowed
