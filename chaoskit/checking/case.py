"""What a rule is given: the settings and guards of one file, and what they are checked against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from chaoskit.checking.target import Target
from chaoskit.model import Guard
from chaoskit.profiles.nccl import NcclVariable, nccl_variables
from chaoskit.profiles.variable import EnvVariable, Implementation
from chaoskit.profiles.variables import VARIABLES

_ON = frozenset({"1", "y", "yes", "t", "true"})
_OFF = frozenset({"0", "n", "no", "f", "false"})


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable with its value. ``line`` is 0 where there is none. ``to_expand``: a shell that reads the
    file would put something else in the place of a part of the value, so it is not known."""

    name: str
    value: str
    line: int = 0
    to_expand: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked. ``file`` is what messages call it; ``lines`` are those of its guards. ``guesses`` are
    fields of guards (guard, field) that hold a default only because something beside them could not be read:
    ``collectiv`` for ``collective``. Nobody wrote these figures."""

    kind: Literal["profile", "env-file", "environment"]
    file: str
    settings: tuple[Setting, ...] = ()
    guards: tuple[Guard, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)
    guesses: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Case:
    """One subject under one target, with the look-ups that rules share."""

    subject: Subject
    target: Target

    def setting(self, name: str) -> Setting | None:
        """Return the setting in effect: of a name that is given twice, the last."""
        return next((s for s in reversed(self.subject.settings) if s.name == name), None)

    def effective(self, variable: EnvVariable) -> Setting | None:
        """Return the setting that torch takes: the variable's own, or that of an old name of it."""
        old = [v.name for v in VARIABLES.values() if v.replaced_by == variable.name]
        return next((s for name in (variable.name, *old) if (s := self.setting(name)) is not None), None)

    def is_on(self, variable: EnvVariable) -> bool:
        """Return whether a flag is on, or a mode is not 0. False for a value that is none."""
        found = self.effective(variable)
        value = found.value.strip().lower() if found is not None else ""
        return value in _ON or (value.isascii() and value.isdigit() and int(value[:9]) > 0)

    def is_off(self, variable: EnvVariable) -> bool:
        """Return whether a flag is given, and turns the thing off."""
        found = self.effective(variable)
        return found is not None and found.value.strip().lower() in _OFF

    def guard(self, name: str) -> Guard | None:
        return next((g for g in self.subject.guards if g.name == name), None)

    def seconds(self, guard: str, setting: str) -> float | None:
        """Return a duration of a guard; None where the profile has no such guard, it is off (0), or what the
        file means by it is not known."""
        found = None if self.is_guess(guard, setting) else self.guard(guard)
        value = getattr(found, f"{setting}_s", None) if found is not None else None
        return float(value) if value else None

    def is_guess(self, guard: str, setting: str) -> bool:
        """Return whether a duration is a default that the file may have meant to change."""
        return (guard, f"{setting}_s") in self.subject.guesses

    def line(self, guard: str) -> int:
        return self.subject.lines.get(guard, 0)

    def known(self) -> Iterator[tuple[Setting, EnvVariable | NcclVariable]]:
        """Yield the settings that something is known of, each as it is in effect."""
        for name in dict.fromkeys(s.name for s in self.subject.settings):
            variable = VARIABLES.get(name) or nccl_variables().get(name)
            setting = self.setting(name)
            if variable is not None and setting is not None:
                yield setting, variable

    @property
    def implementations(self) -> tuple[Implementation, ...]:
        """What the backends that are meant resolve to, under this torch and these settings."""
        chosen = self.setting("TORCH_DIST_USE_NCCL2")
        return self.target.implementations("" if chosen is None else chosen.value)

    @property
    def on_nccl(self) -> bool:
        return self.implementations != ("gloo",)
