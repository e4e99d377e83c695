"""Every error a user of chaoskit can meet, and the exit codes of the command line.

Nothing here knows what a scenario or a rank is. A rank's failure is data (an event in a
history), never an exception of this module.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ExitCode(enum.IntEnum):
    """What the ``chaoskit`` command tells its caller."""

    OK = 0
    """At least one verdict, and none worse than held or not needed."""
    NOT_HELD = 1
    """Something is not held."""
    INCONCLUSIVE = 2
    """Nothing is *not held*, but something is inconclusive, or everything was skipped."""
    USAGE = 64
    """Wrong usage, a bad file, or nothing matched."""
    INTERNAL = 70
    """chaoskit's own fault."""
    INTERRUPTED = 130
    """Ended by Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in what the user gave, said in one message.

    ``file`` and ``line`` (1-based) say where; ``hint`` says what to do next.
    """

    message: str
    file: str = ""
    line: int = 0
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        hint = f"\n    {self.hint}" if self.hint else ""
        return f"{where}{self.message}{hint}"


class ChaoskitError(Exception):
    """The root of all errors a user can meet. ``exit_code`` is what the command line returns."""

    exit_code: ExitCode = ExitCode.INTERNAL


class InvalidInput(ChaoskitError):
    """The user's files or arguments are wrong; carries *all* the problems found, not the first."""

    exit_code = ExitCode.USAGE

    def __init__(self, problems: list[Problem] | tuple[Problem, ...]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class BrokenPlugin(ChaoskitError):
    """A fault, guard or workload file does not keep its family's contract."""

    exit_code = ExitCode.USAGE


class LaunchFailed(ChaoskitError):
    """chaoskit could not start its own machinery (fork server, warden)."""

    exit_code = ExitCode.INTERNAL


def usage(message: str, hint: str = "") -> InvalidInput:
    """Return an :class:`InvalidInput` with the one problem ``message``."""
    return InvalidInput([Problem(message, hint=hint)])
