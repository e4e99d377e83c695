"""Was the contract kept? From the plan, the full history and what was found, to a verdict.

Anything that would make a pass unearned (a fault not proved, a guard not shown in effect, a
death that nobody ordered) is *inconclusive*, whatever else was seen.
"""

from __future__ import annotations

import dataclasses
import signal

from chaoskit.history import (
    DeadlineReached,
    Ended,
    GuardArmed,
    GuardFired,
    GuardNoticed,
    History,
    Injected,
    Leftover,
    RunDelay,
    Signalled,
)
from chaoskit.judge import blame as blame_rules
from chaoskit.judge import clocks, during, ended_by, noticed, program, replicas, starving, stragglers
from chaoskit.judge import outcome as outcomes
from chaoskit.judge.job import Job, RankView, names, settled, started_at
from chaoskit.judge.rules.host import STORE_GUARD
from chaoskit.model import (
    Blame,
    Contract,
    Culprit,
    Operation,
    Outcome,
    Plan,
    RankEnd,
    Status,
    Verdict,
)
from chaoskit.network import STORE_HOST
from chaoskit.profiles import variables


def judge(plan: Plan, history: History) -> Verdict:
    """Return the verdict of one arm."""
    history, clock_notes = _prepared(plan, history)
    found = outcomes.find(plan, history)
    job = Job.of(history)
    blame = _blame(plan, history, found.outcome)
    latency = latency_s(plan, history, job)
    doubt = (
        found.unjudgeable
        or _doubt(plan, history, job, found.outcome)
        or _starved(plan, history, job, found, blame, latency)
    )
    if found.outcome is Outcome.MASKED and program.is_watched(plan) and not blame.culprits:
        doubt = doubt or f"{found.reason}; the evidence names nobody, so it may be meant"
    breaches = (
        () if found.outcome is None else breached(plan.contract, plan, history, job, found, blame, latency)
    )
    hardened = (
        ()
        if found.outcome is None
        else breached(plan.hardened_contract, plan, history, job, found, blame, latency)
    )
    undecided = doubt or _undecided(plan.contract, job, blame, breaches)
    status, reason = _status(found, blame, undecided, breaches)
    doubt = doubt or _undecided(plan.hardened_contract, job, blame, hardened)
    well = found.outcome is Outcome.COMPLETED
    slow = stragglers.find(history, job) if well else stragglers.Stragglers()
    compared = replicas.compare(job).note if well else ""
    return Verdict(
        scenario=plan.scenario,
        arm=plan.arm,
        repeat=plan.repeat,
        attempt=plan.attempt,
        backend=plan.backend,
        profile=plan.profile.name,
        status=status,
        reason=reason,
        outcome=found.outcome,
        kind=blame.kind,
        bites=None if doubt or found.outcome is Outcome.NOT_INJECTED else bool(hardened),
        bound_s=plan.bound_s,
        production_bound_s=plan.production_bound_s,
        latency_s=latency,
        culprits=blame.culprits,
        victims=tuple(v.rank for v in job.ranks if blame.culprits and not _guilty(v, blame) and _hurt(v)),
        ambiguous=blame.ambiguous,
        where=blame.where,
        ranks=tuple(_rank_end(v, fired_at(plan, history)) for v in job.ranks),
        not_applicable=_not_applicable(plan, history),
        rerun=plan.rerun,
        notes=tuple(
            filter(None, (*plan.notes, *clock_notes, compared, *slow.notes, *noticed.notes(history)))
        ),
        stragglers=slow.ranks,
        ended_by=ended_by.find(job) if found.outcome not in (None, Outcome.COMPLETED) else (),
        cause=blame.reason,
        at=blame.at,
        sureness=blame.sureness,
        evidence=blame.evidence,
    )


def _prepared(plan: Plan, history: History) -> tuple[History, tuple[str, ...]]:
    """Return the history as the rules read it: on one clock, and with an end for each rank that has one."""
    on_one_clock, notes = clocks.aligned(history, waits=plan.backend == "gloo")
    return settled(on_one_clock), notes


def _not_applicable(plan: Plan, history: History) -> tuple[str, ...]:
    """Guards that said so, and variables that the backend does not read."""
    guards = {g.guard for g in history.all(GuardArmed) if not g.applicable}
    if plan.launcher != "forkserver":  # it keeps to rules of its own
        guards |= {g.name for g in plan.profile.guards if g.lives_in == "launcher"}
    if not plan.serves_store:  # on one host it lives where the ranks do
        guards |= {g.name for g in plan.profile.guards if g.serves_store}
    known = {name: variables.lookup(name).backends for name, _ in plan.profile.env}
    unread = {name for name, backends in known.items() if backends and plan.backend not in backends}
    return (*sorted(guards), *sorted(unread))


def _blame(plan: Plan, history: History, outcome: Outcome | None) -> Blame:
    """Who did it. In a job that went well nobody did anything; only a contract that asks for culprits all the
    same is answered, with what guards noticed."""
    if outcome is Outcome.COMPLETED:
        return noticed.blame(history) if plan.hardened_contract.culprits else Blame()
    if outcome in (None, Outcome.NOT_INJECTED):
        return Blame()
    found = blame_rules.find(history)
    # Somebody still moves: who the others wait for may be slow by right.
    return dataclasses.replace(found, likely=True) if outcome is Outcome.OVERDUE else found


def _guilty(view: RankView, blame: Blame) -> bool:
    """Is this rank, or the host it is on, a culprit?"""
    return bool({Culprit("rank", str(view.rank)), Culprit("host", view.host)} & set(blame.culprits))


def _hurt(view: RankView) -> bool:
    return view.alive_at_deadline or view.exit_code != 0


def _status(found: outcomes.Found, blame: Blame, doubt: str, breaches: tuple[str, ...]) -> tuple[Status, str]:
    if found.outcome is Outcome.NOT_INJECTED:
        return Status.INCONCLUSIVE, found.reason
    if doubt:
        return Status.INCONCLUSIVE, doubt
    told = f"{found.reason}; {blame.reason}" if blame.reason else found.reason
    if breaches:
        return Status.FAIL, f"{'; '.join(breaches)} ({told})"
    return Status.PASS, told


def fired_at(plan: Plan, history: History) -> float:
    """Return the time of the last fault's firing; the start of the arm where there is none.

    A fault on several ranks counts from the first of them; a launch fault from its process' start.
    """
    first: dict[int, float] = {}
    for event in history.all(Injected):
        first.setdefault(event.index, event.t_s)
    return max(first.values(), default=started_at(history))


def latency_s(plan: Plan, history: History, job: Job) -> float | None:
    """Return seconds from the injection to the end of the last rank; None if some had to be ended."""
    if any(v.alive_at_deadline for v in job.ranks) or not job.ranks:
        return None
    last = max((e.t_s for e in history.all(Ended)), default=None)
    return None if last is None else max(0.0, last - fired_at(plan, history))


def breached(
    contract: Contract,
    plan: Plan,
    history: History,
    job: Job,
    found: outcomes.Found,
    blame: Blame,
    latency: float | None,
) -> tuple[str, ...]:
    """Return each promise of ``contract`` that was broken, in words; empty when it was kept."""
    lines = []
    if contract.outcome is not None and found.outcome is not contract.outcome:
        lines.append(f"expected {contract.outcome}, found {found.outcome}")
    lines += _late(contract, plan, latency)
    lines += _exits(contract, job)
    lines += _blamed(contract, blame)
    said = [g.message for g in history.all(GuardFired)] + [g.message for g in history.all(GuardNoticed)]
    if contract.says and not any(contract.says in message for message in said):
        lines.append(f"no guard said {contract.says!r}")
    if left := history.all(Leftover):
        listed = ", ".join(f"{e.command or 'process'} (pid {e.pid})" for e in left[:3])
        lines.append(f"left behind: {listed}")
    return tuple(lines)


def _late(contract: Contract, plan: Plan, latency: float | None) -> list[str]:
    if contract.within is None:
        return []
    bound = plan.bound_s if contract.within == plan.hardened_contract.within else None
    bound = contract.within.seconds(plan.profile.timeouts) if bound is None else bound
    if bound is None:
        return [f"the profile {plan.profile.name} sets no {contract.within.timeout} timeout: no bound"]
    if latency is None:
        return [f"not ended within {bound:.3g} s"]
    return [f"ended after {latency:.3f} s, bound {bound:.3g} s"] if latency > bound else []


def _exits(contract: Contract, job: Job) -> list[str]:
    lines = []
    ended = [v for v in job.ranks if not v.alive_at_deadline]
    codes = {v.rank: v.exit_code for v in ended}  # of a rank that is claimed twice, the last
    nonzero = any(v.exit_code != 0 for v in ended)
    if job.launcher is not None and job.launcher.by == "":  # its exit code is the job's
        nonzero = job.launcher.exit_code != 0
    if contract.exit == "nonzero" and not nonzero:
        lines.append("the job did not end nonzero")
    if contract.exit == "zero" and (nonzero or len(ended) < len(job.ranks)):
        lines.append("the job did not end 0")
    for rank, code in contract.exit_codes:
        got = codes.get(rank)
        if got != code:
            lines.append(f"rank {rank} was to exit with {code}, got {got}")
    return lines


def _blamed(contract: Contract, blame: Blame) -> list[str]:
    lines = []
    if contract.culprits is not None and (blame.ambiguous or set(blame.culprits) != set(contract.culprits)):
        wanted = ", ".join(map(str, contract.culprits)) or "nobody"
        got = ", ".join(map(str, blame.culprits)) or "nobody"
        lines.append(f"culprit expected {wanted}, found {'ambiguous: ' if blame.ambiguous else ''}{got}")
    if contract.kind is not None and blame.kind is not contract.kind:
        lines.append(f"kind expected {contract.kind}, found {blame.kind or 'none'}")
    return lines


def _undecided(contract: Contract, job: Job, blame: Blame, breaches: tuple[str, ...]) -> str:
    """Of two ranks that differ no third tells who is right: to name both of them breaks no promise, and keeps
    none. Only where nothing else is broken."""
    wanted = set(contract.culprits or ())
    if len(job.ranks) != 2 or not blame.ambiguous or not wanted or not wanted <= set(blame.culprits):
        return ""
    if len(breaches) != 1 or list(breaches) != _blamed(contract, blame):
        return ""
    if contract.kind is not None and blame.kind is not contract.kind:
        return ""
    return f"two ranks differ and no third tells who is right ({breaches[0]})"


def worth_another_try(plan: Plan, history: History, verdict: Verdict) -> bool:
    """Return whether lateness alone decided, and was no longer than the ranks had to wait for a core.

    That goes for an arm that failed its contract as for a control that broke the hardened one: a
    loaded machine must neither fail a guard nor make a fault look as if it needed one. Such an arm
    is run again, alone, once; both verdicts are reported. So is one of which :func:`_starved` says
    that it cannot be told.
    """
    bound = plan.bound_s
    if verdict.latency_s is None or bound is None or verdict.latency_s <= bound:
        return False
    history, _ = _prepared(plan, history)
    job = Job.of(history)
    found = outcomes.find(plan, history)
    blame = _blame(plan, history, found.outcome)
    if verdict.status is Status.INCONCLUSIVE:
        return verdict.reason == _starved(plan, history, job, found, blame, verdict.latency_s) != ""
    contract = plan.contract if verdict.status is Status.FAIL else plan.hardened_contract
    if verdict.status is not Status.FAIL and not verdict.bites:
        return False
    on_time = breached(contract, plan, history, job, found, blame, latency=0.0)
    delay = max((e.seconds for e in history.all(RunDelay)), default=0.0)
    return not on_time and verdict.latency_s - bound <= delay


def _starved(
    plan: Plan, history: History, job: Job, found: outcomes.Found, blame: Blame, latency: float | None
) -> str:
    """Say so where lateness alone decides, how long the late ranks waited for a core is not known (no keeper
    or warden told), and one was seen runnable without getting any: then a slow machine looks like a fault."""
    if latency is None or plan.bound_s is None or latency <= plan.bound_s or found.outcome is None:
        return ""
    by_lateness = any(
        breached(contract, plan, history, job, found, blame, latency)
        and not breached(contract, plan, history, job, found, blame, latency=0.0)
        for contract in (plan.contract, plan.hardened_contract)
    )
    told = {e.slot for e in history.all(RunDelay) if e.seconds > 0.0}  # 0: no schedstat
    due = fired_at(plan, history) + plan.bound_s
    late = [v for v in job.ranks if v.ended is not None and v.ended.t_s > due and v.slot not in told]
    starved = [v.rank for v in late if starving.is_seen(v.samples)]
    if not by_lateness or not starved:
        return ""
    return (
        f"ended after {latency:.3f} s, bound {plan.bound_s:.3g} s, while {names(starved)} waited for a core, "
        "nobody knows for how long: the machine was too busy"
    )


# ---------------------------------------------------------------- what would make a pass unearned


def _doubt(plan: Plan, history: History, job: Job, outcome: Outcome | None) -> str:
    if outcome is Outcome.NOT_INJECTED:
        return ""
    return (
        _cut_short(plan, history, job)
        or during.unproved(history)
        or _unordered(plan, history, job)
        or _not_in_effect(plan, history, job)
        or _teardown(plan, job, outcome)
    )


def _cut_short(plan: Plan, history: History, job: Job) -> str:
    """Ranks that the user's own limit ended before the bound was over might still have kept it."""
    if plan.timeout_s is None or not any(v.alive_at_deadline for v in job.ranks):
        return ""
    if any(d.final and outcomes.still_over_s(plan, history, d) > 0.0 for d in history.all(DeadlineReached)):
        return ""  # not a bound decides, but for how long nothing has moved (see judge/hang.py)
    if plan.bound_s is not None and plan.deadline_s > plan.bound_s:
        return ""
    bound = f" before its bound of {plan.bound_s:.3g} s" if plan.bound_s is not None else ""
    return f"ended by --timeout {plan.timeout_s:g} s{bound}: nothing can be said"


def _unordered(plan: Plan, history: History, job: Job) -> str:
    """A death by a signal that neither the plan, a guard of the profile nor torch itself sends.

    A program that is watched as it is may die of its own doing; to complete it may not, so nothing is earned.
    A launcher of the user's ends the other ranks once one is lost.
    """
    if program.is_watched(plan):
        return ""
    if lost := _lost_store(plan, history):
        return lost
    ordered = {slot for injection in plan.injections for slot in outcomes.ordered_to_die(plan, injection)}
    guard_codes = {code for guard in plan.profile.guards for code in guard.exit_codes}
    for view in job.ranks:
        code = view.exit_code
        if code is None or code >= 0 or not view.ended_itself or code == -signal.SIGABRT:
            continue
        if view.slot in ordered or code in guard_codes or job.ended_by_launcher(view):
            continue
        return f"rank {view.rank} was ended by signal {-code}, which nothing in this arm ordered"
    return ""


def _lost_store(plan: Plan, history: History) -> str:
    """The store outside of the ranks ended, though no fault meant its host."""
    store = plan.network.store if plan.network is not None else ""
    if {STORE_HOST, store} & {getattr(i.fault, "host", "") for i in plan.injections}:
        return ""
    said = [s.reason for s in history.all(Signalled) if s.guard == STORE_GUARD]
    ended = next((reason for reason in said if "was ended by SIG" in reason), "")
    return f"{ended}, which nothing in this arm ordered" if ended else ""


def _not_in_effect(plan: Plan, history: History, job: Job) -> str:
    """Each guard that lives in or beside the ranks has to be shown in effect on each that reached init."""
    armed = {(g.guard, g.slot) for g in history.all(GuardArmed)}
    beside = "rank" if plan.launcher == "forkserver" else "sidecar"
    for guard in plan.profile.guards:
        if guard.lives_in not in ("rank", beside):
            continue
        bare = [v.rank for v in job.ranks if v.entered and (guard.name, v.slot) not in armed]
        if bare:
            return f"guard {guard.name} is not shown in effect on {names(bare)}"
    return ""


def _teardown(plan: Plan, job: Job, outcome: Outcome | None) -> str:
    """An abort at exit after the work was done is torch's own; it proves nothing about a guard."""
    if program.is_watched(plan):
        return ""
    if outcome is Outcome.FAILED and job.ranks and all(v.finished is not None for v in job.ranks):
        return "all ranks had finished their work; the job failed at teardown only"
    return ""


def _rank_end(view: RankView, zero: float) -> RankEnd:
    ended = None if view.alive_at_deadline or view.ended is None else round(view.ended.t_s - zero, 6)
    code = None if view.alive_at_deadline else view.exit_code
    last = Operation(view.last.op, view.last.group, view.last.nth) if view.last is not None else None
    return RankEnd(view.rank, code, ended, last)
