"""Guards that need what is not there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.checking.case import Case
from chaoskit.checking.family import Rule
from chaoskit.checking.finding import Finding, Level
from chaoskit.checking.launchers import not_followed
from chaoskit.guards.launcher_gaps import LAUNCHERS, LauncherName

_DONE_INSTEAD: Final = "the sidecar guard does that instead"


@dataclass(frozen=True, slots=True)
class Needs(Rule):
    """With ``--launcher``: a rule of a launcher guard that this launcher does not follow by itself, and ranks
    that are ended one by one where nothing ends the others. Without that option nothing is said: it is not
    known what starts the ranks."""

    name: ClassVar[str] = "needs"

    def check(self, case: Case) -> Iterator[Finding]:
        launcher = case.target.launcher
        if launcher is None or case.subject.kind != "profile":
            return
        for guard in case.subject.guards:
            for line in not_followed(case, guard, launcher):
                level = Level.NOTE if _DONE_INSTEAD in line else Level.WARNING
                yield Finding(level, guard.name, line, line=case.line(guard.name))
        yield from _keeper(case)
        yield from _others(case, launcher)


def _keeper(case: Case) -> Iterator[Finding]:
    if case.guard("sidecar") is not None:
        message = (
            "needs a keeper beside each rank: only `python -m chaoskit.guards --profile … train.py` has one"
        )
        yield Finding(Level.NOTE, "sidecar", message, line=case.line("sidecar"))


def _others(case: Case, launcher: LauncherName) -> Iterator[Finding]:
    enders = [g for g in case.subject.guards if g.lives_in == "rank" and g.exit_codes]
    ends_all = any(case.guard(name) is not None for name in ("group_kill", "sidecar", "timeouts"))
    if enders and not ends_all and not LAUNCHERS[launcher].kills_on_failure:
        names = ", ".join(g.name for g in enders)
        message = f"{names} end a rank, and nothing ends the others: {LAUNCHERS[launcher].shown} does not"
        hint = "add the guard sidecar or group_kill, and timeouts"
        yield Finding(Level.WARNING, enders[0].name, message, hint, case.line(enders[0].name))
