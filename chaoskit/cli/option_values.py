"""Reads single options that several commands share; every problem is kept, none ends the reading.

Options are taken as text on purpose: click would stop at the first bad one.
"""

from __future__ import annotations

import difflib
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from chaoskit.errors import InvalidInput, Problem
from chaoskit.gpu.sharing import WAYS
from chaoskit.model import Backend, GpuSharing, Launcher, Profile, Scenario

T = TypeVar("T")

BACKENDS: tuple[Backend, ...] = ("gloo", "nccl")
LAUNCHERS: tuple[Launcher, ...] = ("forkserver", "torchrun", "command")
RANKS_MAX = 4096
SEED_MAX = 2**63 - 1
_DURATION_HINT = "write 30s, 2m or a number of seconds"


@dataclass(frozen=True, slots=True)
class Library:
    """The functions that find what a user names. Those for files and names raise InvalidInput."""

    select: Callable[[Sequence[str]], list[Scenario]]
    load_profile: Callable[[str], Profile]
    capabilities: Callable[[], Iterable[str]]
    duration_s: Callable[[str], float]
    """Seconds of a duration's text. Raises ValueError, as no file is meant."""


def library() -> Library:
    """Return the functions behind names on the command line; imports pydantic."""
    from chaoskit import capabilities, scenario

    return Library(scenario.select, scenario.load_profile, capabilities.names, scenario.duration_s)


class Found:
    """The problems so far, and the readers that add to them."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.problems: list[Problem] = []

    def add(self, message: str, hint: str = "") -> None:
        self.problems.append(Problem(message, hint=hint))

    def attempt(self, what: Callable[[], T]) -> T | None:
        """Return what ``what`` returns, or None with its problems kept."""
        try:
            return what()
        except InvalidInput as error:
            self.problems += error.problems
            return None

    def whole(self, option: str, text: str | None, low: int, high: int) -> int | None:
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            self.add(f"{option} {text!r}: expected a whole number from {low} to {high}")
            return None
        if not low <= value <= high:
            self.add(f"{option} {value}: expected a whole number from {low} to {high}")
            return None
        return value

    def one_of(self, option: str, text: str | None, allowed: Iterable[T]) -> T | None:
        if text is None:
            return None
        names = {str(name): name for name in allowed}
        if text not in names:
            expected = f"{', '.join(list(names)[:-1])} or {list(names)[-1]}"
            self.add(f"{option} {text!r}: expected {expected}", did_you_mean(text, names))
        return names.get(text)

    def duration(self, option: str, text: str | None) -> float | None:
        """Return the seconds of a duration above 0."""
        if text is None:
            return None
        try:
            value = self.library.duration_s(text)
        except ValueError as error:
            self.add(f"{option} {text!r}: {error}", _DURATION_HINT)
            return None
        if not 0 < value < math.inf:
            self.add(f"{option} {text!r}: expected a duration above 0", _DURATION_HINT)
            return None
        return value

    def backend(self, text: str | None) -> Backend | None:
        return self.one_of("--backend", text, BACKENDS)

    def seed(self, text: str | None) -> int | None:
        return self.whole("--seed", text, 0, SEED_MAX)

    def jobs(self, text: str | None) -> int | None:
        return self.whole("--jobs", text, 1, RANKS_MAX)

    def gpu_sharing(self, text: str | None) -> GpuSharing | None:
        return self.one_of("--gpu-sharing", text, WAYS)

    def profile(self, name: str | None) -> Profile | None:
        return None if name is None else self.attempt(lambda: self.library.load_profile(name))

    def runs_dir(self, text: str) -> Path:
        path = Path(text)
        try:
            existing = next(p for p in (path, *path.absolute().parents) if p.exists())
            usable = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
        except (OSError, ValueError):
            usable = False
        if not usable:
            self.add(f"--runs-dir {text!r}: cannot be written", "give a folder you may write to")
        return path

    def raise_any(self) -> None:
        """Raise InvalidInput with everything that was found, if anything was."""
        if self.problems:
            raise InvalidInput(self.problems)


def did_you_mean(text: str, names: Iterable[str]) -> str:
    """Return a hint with the closest of ``names``, or ''."""
    close = difflib.get_close_matches(text, list(names), 1)
    return f"did you mean {close[0]!r}?" if close else ""


def as_typed() -> str:
    """Return the command line of this process, as it can be pasted into a shell."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
