"""From the options of ``chaoskit run``, as typed, to a request; every problem is found before any is said.

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

from chaoskit.cli import keyword_expression
from chaoskit.cli.reporting import Format, read_format
from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Backend, Profile, Scenario
from chaoskit.reports import junit
from chaoskit.request import RunRequest

T = TypeVar("T")

BACKENDS: tuple[Backend, ...] = ("gloo", "nccl")
RANKS_MAX = 4096
REPEATS_MAX = 100_000
SEED_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user typed. None: not given."""

    selectors: tuple[str, ...] = ()
    keyword: str | None = None
    stop_at_first: bool = False
    profile: str | None = None
    arms: tuple[str, ...] = ()
    backend: str | None = None
    ranks: str | None = None
    jobs: str | None = None
    seed: str | None = None
    repeat: str | None = None
    timeout: str | None = None
    time_scale: str | None = None
    require: tuple[str, ...] = ()
    runs_dir: str = "runs"
    form: str = "text"
    junit: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done: the request, and how to report."""

    request: RunRequest
    form: Format
    junit: Path | None


@dataclass(frozen=True, slots=True)
class Library:
    """The functions that find what a user names. Those for files and names raise InvalidInput."""

    select: Callable[[Sequence[str]], list[Scenario]]
    load_profile: Callable[[str], Profile]
    capabilities: Callable[[], Iterable[str]]
    duration_s: Callable[[str], float]
    """Seconds of a duration's text. Raises ValueError, as no file is meant."""


class _Found:
    """The problems so far."""

    def __init__(self) -> None:
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

    def one_of(self, option: str, text: str, allowed: Iterable[T]) -> T | None:
        names = {str(name): name for name in allowed}
        if text not in names:
            self.add(f"{option} {text!r}: expected {' or '.join(names)}", did_you_mean(text, names))
        return names.get(text)


def did_you_mean(text: str, names: Iterable[str]) -> str:
    """Return a hint with the closest of ``names``, or ''."""
    close = difflib.get_close_matches(text, list(names), 1)
    return f"did you mean {close[0]!r}?" if close else ""


def read(options: RunOptions, library: Library) -> Asked:
    """Return what the options ask for. Raises InvalidInput with all that is wrong with them."""
    found = _Found()
    scenarios = _scenarios(options, library, found)
    request = RunRequest(
        scenarios=scenarios,
        profile=_profile(options.profile, library, found),
        arms=_arms(options.arms, scenarios, found),
        backend=None if options.backend is None else found.one_of("--backend", options.backend, BACKENDS),
        ranks=found.whole("--ranks", options.ranks, 1, RANKS_MAX),
        jobs=found.whole("--jobs", options.jobs, 1, RANKS_MAX),
        seed=found.whole("--seed", options.seed, 0, SEED_MAX),
        repeat=found.whole("--repeat", options.repeat, 1, REPEATS_MAX) or 1,
        timeout_s=_timeout(options.timeout, library, found),
        time_scale=_time_scale(options.time_scale, found),
        require=_require(options.require, library, found),
        runs_dir=_runs_dir(options.runs_dir, found),
        stop_at_first=options.stop_at_first,
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    )
    form, wrong = read_format(options.form)
    found.problems += wrong
    report = None if options.junit is None else Path(options.junit)
    if report is not None:
        found.problems += junit.problems(report)
    if found.problems:
        raise InvalidInput(found.problems)
    return Asked(request, form, report)


def _scenarios(options: RunOptions, library: Library, found: _Found) -> tuple[Scenario, ...]:
    chosen = found.attempt(lambda: library.select(list(options.selectors) or ["all"])) or []
    if options.keyword is None:
        return tuple(chosen)
    try:
        matches = keyword_expression.parse(options.keyword)
    except ValueError as error:
        found.add(f"-k {options.keyword!r}: {error}", "words joined by and, or, not and parentheses")
        return tuple(chosen)
    kept = tuple(s for s in chosen if matches((s.name, s.family, *s.tags)))
    if chosen and not kept:
        found.add(f"-k {options.keyword!r} matches none of {len(chosen)} scenarios", "see: chaoskit list")
    return kept


def _profile(name: str | None, library: Library, found: _Found) -> Profile | None:
    return None if name is None else found.attempt(lambda: library.load_profile(name))


def _arms(names: tuple[str, ...], scenarios: tuple[Scenario, ...], found: _Found) -> tuple[str, ...]:
    known = dict.fromkeys(arm.name for scenario in scenarios for arm in scenario.arms)
    for name in names:
        if known and name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            found.add(f"--arm {name!r}: no scenario chosen has an arm of that name", hint)
    return names


def _require(names: tuple[str, ...], library: Library, found: _Found) -> tuple[str, ...]:
    known = [*BACKENDS, *(library.capabilities() if names else ())]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(dict.fromkeys(known))}"
            found.add(f"--require {name!r}: nothing of that name can be required", hint)
    return names


def _timeout(text: str | None, library: Library, found: _Found) -> float | None:
    if text is None:
        return None
    try:
        value = library.duration_s(text)
    except ValueError as error:
        found.add(f"--timeout {text!r}: {error}", "write 30s, 2m or a number of seconds")
        return None
    if not 0 < value < math.inf:
        found.add(f"--timeout {text!r}: expected a duration above 0", "write 30s, 2m or a number of seconds")
        return None
    return value


def _time_scale(text: str | None, found: _Found) -> float | None:
    if text in (None, "auto"):
        return None
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 < value <= 1000:
        found.add(f"--time-scale {text!r}: expected auto or a number above 0, as 0.01")
        return None
    return value


def _runs_dir(text: str, found: _Found) -> Path:
    path = Path(text)
    try:
        existing = next(p for p in (path, *path.absolute().parents) if p.exists())
        usable = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    except (OSError, ValueError):
        usable = False
    if not usable:
        found.add(f"--runs-dir {text!r}: cannot be written", "give a folder you may write to")
    return path
