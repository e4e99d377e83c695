"""The sentences about claims: what was seen, in numbers, and never more than that. Pure."""

from __future__ import annotations

import signal
import statistics
from collections import Counter
from collections.abc import Sequence

from chaoskit.claims.values import Answer, Run, Trial, TrialFinding
from chaoskit.model import Outcome

_OUTCOMES = {
    Outcome.COMPLETED: "completed",
    Outcome.FAILED: "ended",
    Outcome.HUNG: "hung",
    Outcome.OVERDUE: "still moving at the deadline",
    Outcome.CORRUPTED: "reported success with a wrong result",
    Outcome.MASKED: "reported success though a rank did not finish",
    Outcome.NOT_INJECTED: "the fault did not fire",
}
_FIT_MIN_S = 1.0
"""Timeouts closer to each other than this show nothing of how the end follows them."""
_FIT_SPREAD = 0.1
"""Nor do runs that are further apart than this share of the difference between the timeouts."""


def of_trial(answer: Answer, with_it: Sequence[Run], without: Sequence[Run], trial: Trial) -> str:
    """Return what a trial showed."""
    if not without:
        return of_runs(with_it, trial)
    if answer in (Answer.NO_EFFECT, Answer.HARMLESS):
        return f"{of_runs([*without, *with_it], trial)}, with and without"
    said = f"with it: {of_runs(with_it, trial)}; without: {of_runs(without, trial)}"
    return f"{said}{_differing(with_it, without)}" if answer is Answer.UNSTEADY else said


def _differing(with_it: Sequence[Run], without: Sequence[Run]) -> str:
    """What the runs differ in where their outcomes do not say it: whether that came which is told."""
    parts = []
    for runs, where in ((with_it, "with it"), (without, "without")):
        kept = sum(bool(run.kept) for run in runs)
        if 0 < kept < len(runs):
            parts.append(f"{where} what is told came in {kept} of {len(runs)} runs")
    return f" ({'; '.join(parts)})" if parts else ""


def of_runs(runs: Sequence[Run], trial: Trial) -> str:
    """Return what runs of one arm showed: ``ended after 3.02–3.05 s, exit 1``."""
    outcomes = Counter(run.outcome for run in runs)
    if len(outcomes) > 1:
        parts = []
        for outcome, count in outcomes.most_common():
            same = [run for run in runs if run.outcome is outcome]
            parts.append(f"{count} of {len(runs)}: {of_runs(same, trial)}")
        return ", ".join(parts)
    if not runs:
        return "not run"
    outcome = runs[0].outcome
    said = _OUTCOMES.get(outcome, "no outcome") if outcome is not None else "no outcome"
    if outcome is Outcome.FAILED:
        said += f" after {span([run.latency_s for run in runs])}, {_exits(runs)}"
    elif outcome is Outcome.HUNG and trial.watched_s is not None:
        said = _not_ended(runs, trial.watched_s)
    who = "the other ranks: " if trial.others and outcome in (Outcome.FAILED, Outcome.HUNG) else ""
    return who + said + _printed(runs, trial)


def _not_ended(runs: Sequence[Run], watched_s: float) -> str:
    """Who did not end: all, or some, where it was the same ranks in all runs."""
    alive = {tuple(sorted(rank for rank, code in run.exits if code is None)) for run in runs}
    ended = [(rank, code) for rank, code in runs[0].exits if code is not None]
    said = f"not ended within {watched_s:g} s, and nothing moves"
    if len(alive) != 1 or not ended:
        return said
    (ranks,) = alive
    stayed = ", ".join(map(str, ranks))
    others = ", ".join(sorted({_code(code) for _, code in ended}))
    return f"rank{'s' if len(ranks) > 1 else ''} {stayed} {said}; the rest ended, {others}"


def _printed(runs: Sequence[Run], trial: Trial) -> str:
    if not trial.prints:
        return ""
    return f", {trial.prints!r} {'' if all(run.printed for run in runs) else 'not '}printed"


def _exits(runs: Sequence[Run]) -> str:
    """How the ranks ended that did not end 0: ``exit 1``, ``signal 11 on all ranks``."""
    codes = {code for run in runs for _, code in run.exits if code}
    if not codes:
        return "all ranks exit 0"
    return "; ".join(_code(code) for code in sorted(codes))


def _code(code: int) -> str:
    if code >= 0:
        return f"exit {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


def span(values: Sequence[float | None]) -> str:
    """Return a range of seconds: ``3.02–3.05 s``."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return "an unknown time"
    low, high = (f"{known[0]:.2f}", f"{known[-1]:.2f}")
    return f"{low} s" if low == high else f"{low}–{high} s"


def of_claim(trials: Sequence[TrialFinding]) -> str:
    """Return what all trials of a claim showed, each under its scenario."""
    if trials and all(trial.answer is Answer.NOT_RUN for trial in trials):
        return f"not run here: {trials[0].says}"
    parts = []
    for trial in trials:
        where = f"{trial.scenario} ({trial.timeouts})" if trial.timeouts else trial.scenario
        parts.append(f"{where}: {trial.says}")
    follows = _fit(trials)
    return "; ".join(parts) + (f". {follows}" if follows else "")


def _fit(trials: Sequence[TrialFinding]) -> str:
    """How the end follows the timeout, where the same scenario ended under two of them, and steadily."""
    points: dict[str, dict[float, tuple[float, float]]] = {}
    for trial in trials:
        known = sorted(run.latency_s for run in trial.with_it if run.latency_s is not None)
        if trial.timeout_s is not None and known and len(known) == len(trial.with_it):
            spread = known[-1] - known[0]
            points.setdefault(trial.scenario, {})[trial.timeout_s] = (statistics.median(known), spread)
    for found in points.values():
        low, high = min(found), max(found)
        if len(found) != 2 or high - low < _FIT_MIN_S:
            continue
        slope = (found[high][0] - found[low][0]) / (high - low)
        if max(spread for _, spread in found.values()) > _FIT_SPREAD * (high - low):
            continue
        rest = found[low][0] - slope * low
        return f"Between these two: {slope:.1f} T {'-' if rest < 0 else '+'} {abs(rest):.1f} s"
    return ""
