"""From verdicts to answers: what was seen with and without a setting, and what that says of a claim. Pure.

Only what the runs show counts. A scenario's own verdict plays no part: here the question is not whether a
guard holds, but whether that comes which is told.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit.claims import wording
from chaoskit.claims.arms import Bench
from chaoskit.claims.values import (
    REPEATS_MIN,
    Answer,
    Claim,
    ClaimFinding,
    Run,
    Trial,
    TrialFinding,
)
from chaoskit.model import ALL_RANKS, Backend, Fault, Outcome, RankEnd, Status, Verdict
from chaoskit.scenario.checks import CONTROL

Folder = Callable[[Verdict], Path]
Printed = Callable[[Path, str], bool]
"""Whether a rank of the arm in that folder printed that text."""
APART_S, APART_TIMES = 0.5, 1.25
"""Two arms end at different times only where their latencies are further apart than by these, and than the
runs of an arm are from one another."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where an arm's files are, and what its ranks printed: the only things asked beside the verdicts."""

    folder: Folder
    printed: Printed


def find(
    claims: Sequence[Claim],
    benches: Sequence[Bench],
    verdicts: Sequence[Verdict],
    files: Files,
    backends: Sequence[Backend],
) -> tuple[ClaimFinding, ...]:
    """Return what came of each claim on each backend."""
    last: dict[tuple[str, str, Backend, int], Verdict] = {}
    for verdict in sorted(verdicts, key=lambda v: v.attempt):
        last[verdict.scenario, verdict.arm, verdict.backend, verdict.repeat] = verdict
    findings = []
    for backend in backends:
        for claim in claims:
            trials = []
            for trial in claim.trials:
                bench = _bench_of(claim, trial, backend, benches)
                mine = [v for v in last.values() if (v.scenario, v.backend) == (bench.scenario.name, backend)]
                trials.append(_trial(claim, trial, bench, mine, files))
            answer = combined([(trial.answer, trial.came) for trial in trials])
            says = wording.of_claim(trials)
            findings.append(ClaimFinding(claim, backend, answer, says, tuple(trials)))
    return tuple(findings)


def _bench_of(claim: Claim, trial: Trial, backend: Backend, benches: Sequence[Bench]) -> Bench:
    return next(
        bench
        for bench in benches
        if bench.backend == backend and any(c is claim and t is trial for c, t in bench.members)
    )


def _trial(
    claim: Claim, trial: Trial, bench: Bench, verdicts: Sequence[Verdict], files: Files
) -> TrialFinding:
    mine = [v for v in verdicts if v.arm == claim.name]
    bare = [v for v in verdicts if v.arm == CONTROL] if claim.setting else []
    with_it, without = (tuple(seen(v, trial, files) for v in verdicts) for verdicts in (mine, bare))
    skipped = [v.reason for v in mine if v.status is Status.SKIPPED]
    answer, why = (Answer.NOT_RUN, skipped[0]) if skipped else judge(with_it, without, claim, trial)
    says = why or wording.of_trial(answer, with_it, without, trial)
    return TrialFinding(
        trial.scenario.name, trial.timeouts, trial.init_s if trial.init_s is not None else trial.collective_s,
        trial.scenario.healthy, answer, says, trial.watched_s, trial.others, without, with_it,
    )  # fmt: skip


def seen(verdict: Verdict, trial: Trial, files: Files) -> Run:
    """Return what one run showed. A healthy job that a signal ends is an observation, not a doubt."""
    outcome, latency_s, ends = verdict.outcome, verdict.latency_s, verdict.ranks
    if trial.others:
        outcome, latency_s, ends = _of_others(verdict, trial)
    exits = tuple((end.rank, end.exit_code) for end in ends)
    by_signal = trial.scenario.healthy and any(code is not None and code < 0 for _, code in exits)
    doubt = verdict.status is Status.INCONCLUSIVE and not by_signal
    unclear = verdict.reason if doubt or verdict.outcome in (None, Outcome.NOT_INJECTED) else ""
    folder = files.folder(verdict)
    printed = not trial.prints or files.printed(folder, trial.prints)
    run = Run(outcome, latency_s, exits, _culprits(verdict), None, printed, unclear, folder)
    return run if unclear else dataclasses.replace(run, kept=printed and _kept(run, trial, verdict))


def _of_others(verdict: Verdict, trial: Trial) -> tuple[Outcome | None, float | None, tuple[RankEnd, ...]]:
    """The outcome of the ranks that no fault was done to: one that was stopped stays, whatever they do."""
    hit = {
        rank
        for injection in trial.scenario.injections
        if injection.fault.rank != ALL_RANKS
        for rank in _hit(injection.fault, trial)
    }
    ends = tuple(end for end in verdict.ranks if end.rank not in hit) or verdict.ranks
    times = [end.ended_s for end in ends]
    if verdict.outcome not in (Outcome.FAILED, Outcome.HUNG, Outcome.OVERDUE):
        return verdict.outcome, verdict.latency_s, ends
    if not times or None in times:
        return (Outcome.HUNG if verdict.outcome is Outcome.FAILED else verdict.outcome), None, ends
    return Outcome.FAILED, max(0.0, *(time for time in times if time is not None)), ends


def _hit(fault: Fault, trial: Trial) -> Iterable[int]:
    """The ranks that a fault is done to: where it befalls a host, all that are on it."""
    topology, targets = trial.scenario.topology, [rank for rank in fault.rank if isinstance(rank, int)]
    if not getattr(fault, "host_wide", False) or topology.hosts < 2:
        return targets
    on = {rank: rank * topology.hosts // topology.ranks for rank in range(topology.ranks)}  # in blocks
    return [rank for rank in on if on[rank] in {on.get(target) for target in targets}]


def _culprits(verdict: Verdict) -> tuple[str, ...]:
    return () if verdict.ambiguous else tuple(map(str, verdict.culprits))


def _kept(run: Run, trial: Trial, verdict: Verdict) -> bool:
    """Did that come which is told?"""
    expect, codes = trial.expect, [code for _, code in run.exits]
    outcome = dict(expect.outcome).get(verdict.backend)
    ends = outcome is not Outcome.HUNG and trial.bound_s is not None
    late = ends and (run.latency_s is None or run.latency_s > (trial.bound_s or 0.0))
    return (
        (outcome is None or run.outcome is outcome)
        and not late
        and (expect.exit != "nonzero" or any(code not in (0, None) for code in codes))
        and (expect.exit != "zero" or all(code == 0 for code in codes))
        and all(dict(run.exits).get(rank) == code for rank, code in expect.exit_codes)
        and (expect.culprits is None or set(run.culprits) == set(map(str, expect.culprits)))
        and (expect.kind is None or verdict.kind is expect.kind)
    )


def judge(with_it: Sequence[Run], without: Sequence[Run], claim: Claim, trial: Trial) -> tuple[Answer, str]:
    """Return the answer of a trial, and why where it is none."""
    arms = [with_it, without] if claim.setting else [with_it]
    for runs in arms:
        if unclear := [run.unclear for run in runs if run.kept is None]:
            return Answer.UNCLEAR, f"nothing can be said: {unclear[0]}"
        if len(runs) < REPEATS_MIN:
            so_far = "; ".join(wording.of_runs(runs, trial) for runs in arms if runs) or "none was run"
            return Answer.UNCLEAR, f"fewer than {REPEATS_MIN} runs are no answer ({so_far})"
    if any(not steady(runs) for runs in arms):
        return Answer.UNSTEADY, ""
    comes = bool(with_it[0].kept)
    if not claim.setting:
        return (Answer.TRUE if comes else Answer.NOT_SO), ""
    came_anyway = bool(without[0].kept)
    if trial.scenario.healthy and trial.completes:
        if not came_anyway:
            said = wording.of_runs(without, trial)
            return Answer.UNCLEAR, f"the healthy job does not complete without it either: {said}"
        return (Answer.HARMLESS if comes else Answer.HARMFUL), ""
    if alike(with_it, without):
        return Answer.NO_EFFECT, ""
    if comes:
        return (Answer.NOT_NEEDED if came_anyway else Answer.TRUE), ""
    return Answer.NOT_SO, ""


def steady(runs: Sequence[Run]) -> bool:
    """Return whether all runs say the same: the same outcome, and the same of the claim."""
    return len({(run.outcome, run.kept) for run in runs}) <= 1


def alike(one: Sequence[Run], other: Sequence[Run]) -> bool:
    """Return whether nothing tells two arms apart: outcomes, culprits, and the time to the end."""
    if {run.outcome for run in one} != {run.outcome for run in other}:
        return False
    if {run.kept for run in one} != {run.kept for run in other} or _codes(one) != _codes(other):
        return False
    if {run.outcome for run in one} != {Outcome.FAILED}:
        return True  # only where a job ends because of the fault does its time say something
    first, second = ([run.latency_s for run in runs if run.latency_s is not None] for runs in (one, other))
    if len(first) != len(one) or len(second) != len(other):
        return bool(first) == bool(second)
    low, high = sorted((first, second), key=statistics.median)
    gap, times = min(high) - max(low), statistics.median(high) / max(statistics.median(low), 1e-9)
    spread = max(max(values) - min(values) for values in (low, high))
    return not (gap > max(APART_S, spread) and times > APART_TIMES)


def _codes(runs: Sequence[Run]) -> set[int | None]:
    return {code for run in runs for _, code in run.exits}


def combined(trials: Sequence[tuple[Answer, bool]]) -> Answer:
    """Return the answer of a claim from those of its trials, each with whether that came which is told.

    What breaks a healthy job comes first. *No effect* is only what had none in every trial.
    """
    ran = [answer for answer, _ in trials if answer is not Answer.NOT_RUN]
    if not ran:
        return Answer.NOT_RUN
    for first in (Answer.HARMFUL, Answer.UNCLEAR, Answer.UNSTEADY):
        if first in ran:
            return first
    told = {answer for answer in ran if answer is not Answer.HARMLESS}
    if not told:
        return Answer.HARMLESS
    if len(told) == 1:
        return told.pop()
    if Answer.TRUE in told:
        return Answer.PARTLY
    absent = any(answer is Answer.NO_EFFECT and not came for answer, came in trials)
    return Answer.NOT_SO if absent or Answer.NOT_SO in told else Answer.NOT_NEEDED
