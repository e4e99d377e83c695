"""The verdict of a scenario, from the verdicts of its arms."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.model import Backend, Outcome, Result, ScenarioResult, Status, Verdict

CONTROL = "control"


def judge(
    name: str, backend: Backend, healthy: bool, verdicts: Sequence[Verdict], completes: bool = False
) -> ScenarioResult:
    """Return held, not held, not needed, inconclusive or skipped, and why.

    Held has to be earned: the control arm was run, the fault fired, and the control broke the
    contract that the hardened arms kept. Of several attempts of an arm the last one counts.
    ``completes``: the hardened contract is one of a job that completes, and says or names something.
    """
    last: dict[tuple[str, int], Verdict] = {}
    for verdict in verdicts:
        last[verdict.arm, verdict.repeat] = verdict
    result, reason = _judge(healthy, list(last.values()), completes)
    return ScenarioResult(name, backend, result, reason, tuple(verdicts))


def _judge(healthy: bool, verdicts: list[Verdict], completes: bool) -> tuple[Result, str]:
    controls = [v for v in verdicts if v.arm == CONTROL]
    hardened = [v for v in verdicts if v.arm != CONTROL]
    if verdicts and all(v.status is Status.SKIPPED for v in verdicts):
        return Result.SKIPPED, verdicts[0].reason
    done = bool(controls) and all(v.outcome is Outcome.COMPLETED for v in verdicts)
    if done and not healthy and not (completes and hardened):
        return Result.INCONCLUSIVE, "the fault did no harm: every arm completed, the control too"
    if failed := [v for v in (verdicts if healthy else hardened) if v.status is Status.FAIL]:
        return Result.NOT_HELD, f"{failed[0].arm} ({failed[0].profile}): {failed[0].reason}"
    if unclear := [v for v in verdicts if v.status in (Status.INCONCLUSIVE, Status.SKIPPED)]:
        return Result.INCONCLUSIVE, f"{unclear[0].arm}: {unclear[0].reason}"
    if not hardened:
        return Result.INCONCLUSIVE, "only the control arm was run"
    if healthy:
        done = all(v.outcome is Outcome.COMPLETED for v in verdicts) and bool(verdicts)
        return (Result.HELD, "completed in every arm") if done else (Result.INCONCLUSIVE, "no arm was run")
    if not controls:
        return Result.INCONCLUSIVE, "the control arm was not run: a pass without it proves nothing"
    if surprising := [v for v in controls if v.status is Status.FAIL]:
        return Result.INCONCLUSIVE, f"the control did not behave as recorded: {surprising[0].reason}"
    biting = [v for v in controls if v.bites]
    if not biting:
        return Result.NOT_NEEDED, f"the control meets the contract by itself ({controls[0].outcome})"
    if len(biting) < len(controls):
        return (
            Result.INCONCLUSIVE,
            f"the control broke the contract in {len(biting)} of {len(controls)} repeats only",
        )
    return Result.HELD, f"without it: {controls[0].outcome}"
