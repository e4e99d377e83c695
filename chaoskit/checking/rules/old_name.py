"""Names that have been replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.checking.case import Case, Setting
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.profiles.variable import EnvVariable
from chaoskit.profiles.variables import VARIABLES


@dataclass(frozen=True, slots=True)
class OldName(Rule):
    """An old name of a variable. It is still read and torch warns of it once (a note); where the new name is
    given too, with another value, the new one wins and the old one does nothing (a warning). For a torch that
    does not have the new name yet, the old one is right, and the new one is an error (see no-effect)."""

    name: ClassVar[str] = "old-name"

    def check(self, case: Case) -> Iterator[Finding]:
        for setting, variable in case.known():
            if isinstance(variable, EnvVariable) and variable.replaced_by:
                yield from _of(setting, variable, case)


def _of(setting: Setting, variable: EnvVariable, case: Case) -> Iterator[Finding]:
    torch, since, new = case.target.torch, variable.replaced_since, variable.replaced_by
    if torch is None or (since is not None and torch < since):
        return
    other = case.setting(new)
    if other is not None and other.value != setting.value:
        message = f"an old name; {new} is given too, with another value, and wins"
        yield said_of(setting, Level.WARNING, message, "remove the old name", VARIABLES[new].source)
    else:
        hint = "remove it" if other is not None else f"write {new}"
        said = ".".join(map(str, since)) if since is not None else ""
        message = f"an old name: since torch {said} it is {new}; still read"
        yield said_of(setting, Level.NOTE, message, hint, variable.source)
