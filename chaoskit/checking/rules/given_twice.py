"""Variables that stand in a file twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.checking.case import Case
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level


@dataclass(frozen=True, slots=True)
class GivenTwice(Rule):
    """A variable that is given twice with different values: the last one counts, whatever the first says. (In
    a profile the reader refuses it.)"""

    name: ClassVar[str] = "given-twice"

    def check(self, case: Case) -> Iterator[Finding]:
        for setting in case.subject.settings:
            last = case.setting(setting.name)
            if last is not None and last is not setting and last.value != setting.value:
                where = f" on line {last.line}" if last.line else ""
                message = f"given again{where} with another value, which counts"
                yield said_of(setting, Level.WARNING, message, "keep one of them")
