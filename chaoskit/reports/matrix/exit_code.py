"""From a matrix to the exit code of the command. Pure."""

from __future__ import annotations

from chaoskit.errors import ExitCode
from chaoskit.matrix.values import NONE, PROFILE, Mark, Matrix

_BAD = frozenset({Mark.NOT_HELD, Mark.FALSE_ALARM})
_UNCLEAR = frozenset({Mark.UNSTEADY, Mark.INCONCLUSIVE, Mark.NOT_RUN})
_GOOD = frozenset({Mark.HELD, Mark.QUIET, Mark.NOT_NEEDED})


def exit_code(matrix: Matrix) -> ExitCode:
    """Return what a matrix tells its caller: what a run of the profile under test would.

    A guard that does not hold something by itself is no failure. What could not be told of the profile, or of
    no guard, is inconclusive; so is a matrix in which nothing was shown.
    """
    if matrix.interrupted:
        return ExitCode.INTERRUPTED
    if matrix.edited:
        return ExitCode.INCONCLUSIVE
    marks = {row.mark(PROFILE) for row in matrix.rows}
    if marks & _BAD:
        return ExitCode.NOT_HELD
    bases = {row.mark(NONE) for row in matrix.rows}
    if (marks | bases) & _UNCLEAR or not marks & _GOOD:
        return ExitCode.INCONCLUSIVE
    return ExitCode.OK
