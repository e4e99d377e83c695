"""Variables as one side of a comparison: ``NAME=VALUE``, and files of such lines.

A file is read as ``chaoskit profiles check`` reads it (chaoskit.checking.env_file): to the letter, nothing is
expanded, and of a name that is given twice the last counts. What no rank could be given is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from chaoskit.checking.case import Setting
from chaoskit.checking.env_file import read_env_file
from chaoskit.errors import InvalidInput, Problem
from chaoskit.scenario.profile_file import OF_THE_LAUNCHER

Variable = tuple[str, str]
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Unusable(ValueError):
    """A text is no variable that a rank could be given. ``hint`` says what to write."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def variable(text: str) -> Variable:
    """Return the name and value of ``NAME=VALUE``, to the letter. Raises Unusable."""
    name, sign, value = text.partition("=")
    if not sign:
        raise Unusable("expected NAME=VALUE", "write as TORCH_NCCL_BLOCKING_WAIT=1")
    if _NAME.fullmatch(name) is None:
        raise Unusable(f"{name[:60]!r} is no name of a variable", "letters, digits and _ only, no blanks")
    if name in OF_THE_LAUNCHER:
        raise Unusable(f"{name} is set by the launcher for each rank", "leave it out")
    if "\0" in value or not _encodable(value):
        raise Unusable(f"{name} has a value that no process can be given")
    return name, value


def read(path: str) -> tuple[Variable, ...]:
    """Return the variables of the file in their order. Raises InvalidInput with every problem in it."""
    settings, problems = read_env_file(path)
    problems = (*problems, *_unusable(settings, path))
    if not settings and not problems:
        problems = (Problem("holds no variable", path, hint="write NAME=VALUE lines"),)
    if problems:
        raise InvalidInput(sorted(problems, key=lambda problem: problem.line))
    return tuple({setting.name: setting.value for setting in settings}.items())


def _unusable(settings: Sequence[Setting], path: str) -> Iterator[Problem]:
    for setting in settings:
        try:
            variable(f"{setting.name}={setting.value}")
        except Unusable as error:
            yield Problem(str(error), path, setting.line, error.hint)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
