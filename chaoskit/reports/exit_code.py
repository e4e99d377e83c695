"""From the results of the scenarios to the exit code of the command. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from chaoskit.errors import ExitCode
from chaoskit.model import Result, ScenarioResult


def exit_code(results: Iterable[ScenarioResult], *, interrupted: bool = False) -> ExitCode:
    """Return what a run with these results tells its caller.

    A run in which nothing was shown (all skipped, or no result at all) is never OK: a pipeline
    that tests nothing must not look like one that passes.
    """
    if interrupted:
        return ExitCode.INTERRUPTED
    seen = {r.result for r in results}
    if Result.NOT_HELD in seen:
        return ExitCode.NOT_HELD
    if Result.INCONCLUSIVE in seen or not seen & {Result.HELD, Result.NOT_NEEDED}:
        return ExitCode.INCONCLUSIVE
    return ExitCode.OK
