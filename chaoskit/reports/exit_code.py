"""From the results of the scenarios to the exit code of the command. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from chaoskit.errors import ExitCode
from chaoskit.model import Result, ScenarioResult, Status, Verdict
from chaoskit.reports.judged import is_watch


def exit_code(results: Iterable[ScenarioResult], *, interrupted: bool = False) -> ExitCode:
    """Return what a run with these results tells its caller.

    A run in which nothing was shown (all skipped, or no result at all) is never OK: a pipeline
    that tests nothing must not look like one that passes.
    """
    if interrupted:
        return ExitCode.INTERRUPTED
    seen = {_watched(r.verdicts) if is_watch(r) else r.result for r in results}
    if Result.NOT_HELD in seen:
        return ExitCode.NOT_HELD
    if Result.INCONCLUSIVE in seen or not seen & {Result.HELD, Result.NOT_NEEDED}:
        return ExitCode.INCONCLUSIVE
    return ExitCode.OK


def _watched(verdicts: tuple[Verdict, ...]) -> Result:
    """What the last verdict on a watched program counts as: it passes, fails, or is inconclusive."""
    status = verdicts[-1].status if verdicts else Status.INCONCLUSIVE
    return {Status.PASS: Result.HELD, Status.FAIL: Result.NOT_HELD}.get(status, Result.INCONCLUSIVE)
