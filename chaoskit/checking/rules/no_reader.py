"""Settings that the installed torch does not even name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.checking.case import Case
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.checking.installed import PREFIXES, Installed
from chaoskit.profiles.variable import NCCL, EnvVariable


@dataclass(frozen=True, slots=True)
class NoReader(Rule):
    """A variable of torch that stands in none of the libraries and Python files of the installed torch, so
    nothing in it can read it. Of a build without NCCL nothing is said about variables of the NCCL groups."""

    name: ClassVar[str] = "no-reader"

    def check(self, case: Case) -> Iterator[Finding]:
        evidence = case.target.evidence
        if evidence is None:
            return
        for setting, variable in case.known():
            if not isinstance(variable, EnvVariable) or not setting.name.startswith(PREFIXES):
                continue
            if _is_expected(variable, case, evidence) and not evidence.contains(setting.name):
                message = (
                    f"torch {evidence.version}, as installed, contains no reader of it: the name stands in "
                    "none of its libraries and Python files"
                )
                yield said_of(setting, Level.WARNING, message, "remove it", variable.source)


def _is_expected(variable: EnvVariable, case: Case, evidence: Installed) -> bool:
    """Return whether the tables say that it is read here; of others no-effect has spoken."""
    if variable.backends == NCCL and not evidence.has_nccl:
        return False
    torch = case.target.torch
    return torch is not None and any(variable.is_read(torch, by) is not False for by in case.implementations)
