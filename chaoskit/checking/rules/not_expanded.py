"""Values that hold something for a shell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.checking.case import Case
from chaoskit.checking.family import Rule, said_of, shown
from chaoskit.checking.finding import Finding, Level


@dataclass(frozen=True, slots=True)
class NotExpanded(Rule):
    """A value with ``$NAME`` or a command in it. In a file of variables a shell may expand it (a note: the
    value is not judged); a profile is read by no shell, and ranks get it to the letter (a warning)."""

    name: ClassVar[str] = "not-expanded"

    def check(self, case: Case) -> Iterator[Finding]:
        for setting in case.subject.settings:
            if not setting.to_expand:
                continue
            if case.subject.kind == "profile":
                message = f"nothing expands {shown(setting.value)}: ranks get it to the letter"
                yield said_of(setting, Level.WARNING, message, "write the value itself")
            else:
                message = f"{shown(setting.value)} is not expanded here, so the value was not checked"
                yield said_of(setting, Level.NOTE, message)
