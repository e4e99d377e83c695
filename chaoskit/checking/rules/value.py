"""Values that a variable does not take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.checking.case import Case
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.checking.values import wrong_with


@dataclass(frozen=True, slots=True)
class Value(Rule):
    """A value of the wrong kind: torch raises where the process group forms (an error), or takes it for
    something else without a word: ``10m`` for 10 seconds, ``NCCL_IB_DISABLE=true`` for 0 (an error too)."""

    name: ClassVar[str] = "value"

    def check(self, case: Case) -> Iterator[Finding]:
        for setting in case.subject.settings:
            if "\0" in setting.value:
                message = "has a NUL in its value, which no process can be given"
                yield said_of(setting, Level.ERROR, message, "remove it")
        for setting, variable in case.known():
            if setting.to_expand or "\0" in setting.value:
                continue
            if (wrong := wrong_with(variable, setting.value)) is not None:
                yield said_of(
                    setting, wrong.level, wrong.message, wrong.hint, getattr(variable, "source", "")
                )
