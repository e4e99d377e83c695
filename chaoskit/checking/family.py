"""The family of rules: one file each in ``rules/``, found by name."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.checking.case import Case, Setting
from chaoskit.checking.finding import Finding, Level
from chaoskit.registry import Registry


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be wrong. It reads a case, and changes nothing. Its docstring documents it."""

    name: ClassVar[str]

    def check(self, case: Case) -> Iterator[Finding]:
        """Yield what is wrong. It never raises for what stands in a file."""
        raise NotImplementedError


def said_of(setting: Setting, level: Level, message: str, hint: str = "", source: str = "") -> Finding:
    """Return a finding about a setting, at its line."""
    return Finding(level, setting.name, message, hint, setting.line, source)


def shown(value: str) -> str:
    """Return a value as messages show it: quoted, and short."""
    return repr(value if len(value) <= 40 else value[:37] + "...")


def _check(cls: type[Rule]) -> str:
    if cls.check is Rule.check:
        return "must implement check()"
    if not (cls.__doc__ or "").strip() and sys.flags.optimize < 2:  # -OO takes docstrings away
        return "needs a docstring: it is the rule's documentation"
    return ""


REGISTRY: Registry[Rule] = Registry("chaoskit.checking.rules", Rule, _check)


def apply(rule: Rule, case: Case) -> Iterator[Finding]:
    """Yield the rule's findings, marked as its own."""
    for finding in rule.check(case):
        yield dataclasses.replace(finding, rule=rule.name)
