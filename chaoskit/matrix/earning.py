"""What is said of a cell, from the verdicts of its repeats and of the same scenario without any guard.

Held has to be earned: the fault bites without any guard in every repeat, and the contract is kept in every
repeat. The rules for that are those of a run (:mod:`chaoskit.judge.scenario_result`); what differs between
repeats is *unsteady*, whatever else it would be. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaoskit.judge import scenario_result
from chaoskit.matrix.values import Mark
from chaoskit.model import Backend, Outcome, Result, Status, Verdict

Said = tuple[Mark, str]
_OF_RESULT = {
    Result.HELD: Mark.HELD,
    Result.NOT_HELD: Mark.NOT_HELD,
    Result.NOT_NEEDED: Mark.NOT_NEEDED,
    Result.INCONCLUSIVE: Mark.INCONCLUSIVE,
    Result.SKIPPED: Mark.SKIPPED,
}


@dataclass(frozen=True, slots=True)
class Promise:
    """What a scenario is about, as far as its cells are concerned. ``completes``: its hardened contract is
    one of a job that completes, and that says or names something."""

    name: str
    backend: Backend
    healthy: bool
    completes: bool = False


def without_guard(promise: Promise, controls: Sequence[Verdict]) -> Said:
    """Return what the scenario does without any guard: it bites, or there is nothing to hold."""
    if not controls:
        return Mark.NOT_RUN, "it was not run without any guard"
    if unlike := _differing(controls):
        return Mark.UNSTEADY, unlike
    first = controls[0]
    if first.status is Status.SKIPPED:
        return Mark.SKIPPED, first.reason
    if first.status is Status.INCONCLUSIVE:
        return Mark.INCONCLUSIVE, first.reason
    if promise.healthy:
        done = first.status is Status.PASS and first.outcome is Outcome.COMPLETED
        return (Mark.QUIET, first.reason) if done else (Mark.FALSE_ALARM, first.reason)
    if first.status is Status.FAIL:
        return Mark.INCONCLUSIVE, f"it did not behave as recorded without any guard: {first.reason}"
    if any(control.bites is None for control in controls):
        return Mark.INCONCLUSIVE, f"whether the fault bites could not be told: {first.reason}"
    return (Mark.BITES if first.bites else Mark.NOT_NEEDED), first.reason


def earned(promise: Promise, controls: Sequence[Verdict], verdicts: Sequence[Verdict]) -> Said:
    """Return what is said of a cell with guards. ``verdicts``: the last attempt of each repeat."""
    if not verdicts:
        return Mark.NOT_RUN, "not run"
    base, why = without_guard(promise, controls)
    if unlike := _differing(verdicts):
        return Mark.UNSTEADY, unlike
    first = verdicts[0]
    if first.status is Status.SKIPPED:
        return Mark.SKIPPED, first.reason
    if base in (Mark.UNSTEADY, Mark.INCONCLUSIVE, Mark.NOT_RUN, Mark.SKIPPED):
        return Mark.INCONCLUSIVE, f"without any guard it is {base.replace('_', ' ')}: {why}"
    if promise.healthy:
        return _of_a_twin(base, first)
    arms = (*controls, *verdicts)
    judged = scenario_result.judge(promise.name, promise.backend, False, arms, promise.completes)
    mark = _OF_RESULT[judged.result]
    if mark is Mark.HELD and not (base is Mark.BITES and all(v.status is Status.PASS for v in verdicts)):
        return Mark.INCONCLUSIVE, judged.reason  # never on one rule's word alone
    reason = first.reason if mark in (Mark.HELD, Mark.NOT_HELD, Mark.NOT_NEEDED) else judged.reason
    return mark, reason


def _of_a_twin(base: Mark, verdict: Verdict) -> Said:
    if verdict.status is Status.INCONCLUSIVE:
        return Mark.INCONCLUSIVE, verdict.reason
    if base is not Mark.QUIET:
        return Mark.INCONCLUSIVE, "this healthy twin does not complete without any guard either"
    if verdict.status is Status.PASS and verdict.outcome is Outcome.COMPLETED:
        return Mark.QUIET, verdict.reason
    return Mark.FALSE_ALARM, verdict.reason


def _differing(verdicts: Sequence[Verdict]) -> str:
    """Return in what the repeats differ, or ''."""
    statuses = [v.status.value for v in verdicts]
    if len(set(statuses)) > 1:
        counts = ", ".join(f"{statuses.count(s)} × {s}" for s in dict.fromkeys(statuses))
        odd = next(v for v in verdicts if v.status is not verdicts[0].status)
        return f"{len(verdicts)} repeats gave {counts}; one of them: {odd.reason}"
    bites = [v.bites for v in verdicts if v.arm == scenario_result.CONTROL]
    if len(set(bites)) > 1:
        return f"the fault bit in {bites.count(True)} of {len(bites)} repeats without any guard"
    return ""


def left_a_trace(part: str, verdict: Verdict) -> bool:
    """Return whether it can be seen that ``part`` had a hand in the end of the job.

    Where it cannot, the contract may have been kept by luck: by a fault that bites only now and then.
    """
    if part in verdict.ended_by:
        return True
    return part == "timeouts" and any(name.endswith(" timeout") for name in verdict.ended_by)


def ended_in_time(verdicts: Sequence[Verdict]) -> bool:
    """Return whether the job ended nonzero within its bound in every repeat, whatever else was broken."""
    return bool(verdicts) and all(
        v.outcome is Outcome.FAILED
        and v.latency_s is not None
        and (v.bound_s is None or v.latency_s <= v.bound_s)
        for v in verdicts
    )
