"""From what the user names to a subject: a profile by name or file, a file of variables, or the environment
of this process. What is wrong with single entries is told as findings, beside those of the rules."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from chaoskit.checking.case import Setting, Subject
from chaoskit.checking.env_file import has_expansion, read_env_file
from chaoskit.checking.finding import Finding, Level
from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Guard
from chaoskit.scenario.fitting import salvage_settings
from chaoskit.scenario.profile_file import BUILT_IN, partial_profile, profile_names
from chaoskit.scenario.source import Document, read_document
from chaoskit.scenario.values import did_you_mean

ENVIRONMENT: Final = "-"
_YAML: Final = (".yaml", ".yml")

Read = tuple[Subject, tuple[Finding, ...]]


def read_subject(name: str) -> Read:
    """Return what ``name`` stands for. Raises InvalidInput where it cannot be read at all."""
    if name == ENVIRONMENT:
        return current_environment(os.environ), ()
    if name in profile_names():
        return _profile(BUILT_IN / f"{name}.yaml", name)
    if name.endswith(_YAML):
        return _profile(Path(name), name)
    if not os.path.lexists(name) and "/" not in name and "." not in name:
        hint = f"{did_you_mean(name, profile_names())}; or give a file"
        raise InvalidInput([Problem(f"there is no profile {name!r}", hint=hint)])
    settings, problems = read_env_file(name)
    return Subject("env-file", name, settings), tuple(map(_finding, problems))


def current_environment(env: Mapping[str, str]) -> Subject:
    """Return the variables of a process, by name."""
    return Subject("environment", "environment", tuple(Setting(k, env[k]) for k in sorted(env)))


def _profile(path: Path, shown: str) -> Read:
    document = read_document(path)
    if isinstance(document.data, dict) and "arms" in document.data:
        raise InvalidInput(
            [Problem("this is a scenario, not a profile", shown, hint="see chaoskit validate")]
        )
    if not isinstance(document.data, dict):
        raise InvalidInput([Problem("this is no profile", shown, 1, "a profile has guards: and env:")])
    profile = partial_profile(document)
    settings = tuple(Setting(k, v, document.line(("env", k)), has_expansion(v)) for k, v in profile.env)
    lines = {guard.name: document.line(("guards", guard.name)) for guard in profile.guards}
    given = document.data.get("guards")
    guesses = frozenset(
        (guard.name, field)
        for guard in profile.guards
        for field in _guessed(guard, given[guard.name] if isinstance(given, dict) else None)
    )
    subject = Subject("profile", shown, settings, profile.guards, lines, guesses)
    return subject, tuple(_findings(document))


def _guessed(guard: Guard, raw: object) -> Iterator[str]:
    """Yield the fields that have their default, where a part of what the file says of the guard cannot be
    read: that part may be meant for any of them."""
    good = salvage_settings(type(guard), raw) or {}
    if isinstance(raw, dict) and len(raw) > len(good):
        fields = dataclasses.fields(guard)  # type: ignore[arg-type]  # guards are dataclasses
        yield from (field.name for field in fields if field.name not in good)


def _findings(document: Document) -> Iterable[Finding]:
    return map(_finding, sorted(document.problems, key=lambda p: p.line))


def _finding(problem: Problem) -> Finding:
    return Finding(Level.ERROR, "", problem.message, problem.hint, problem.line, rule="file")
