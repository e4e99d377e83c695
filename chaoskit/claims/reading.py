"""Claim files: YAML → Claim, with every problem of all files at once."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from chaoskit import guards
from chaoskit.claims.file_model import ClaimFile, SettingFile, TrialFile
from chaoskit.claims.values import Claim, Setting, Trial
from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Backend, Guard, Scenario
from chaoskit.scenario.fitting import read_model, read_settings
from chaoskit.scenario.loading import load
from chaoskit.scenario.reader import expectation
from chaoskit.scenario.selection import is_file, select
from chaoskit.scenario.source import Document, KeyPath, read_document
from chaoskit.scenario.values import did_you_mean, shown

TOLD = Path(__file__).parent / "told"
"""The claims that come with chaoskit."""
SCENARIOS = TOLD / "scenarios"
"""What is only of use to claims."""


def files() -> list[Path]:
    """Return the files of the claims that come with chaoskit, sorted."""
    return sorted(TOLD.glob("*.yaml"))


def find(wanted: Iterable[str]) -> list[Claim]:
    """Return the claims of those names or in those files; of none, all that come with chaoskit.

    Raises InvalidInput with every problem.
    """
    known = {file.stem: file for file in files()}
    chosen: dict[Path, None] = {}
    problems = []
    for one in wanted:
        if is_file(one):
            chosen[Path(one)] = None
        elif one in known:
            chosen[known[one]] = None
        else:
            hint = did_you_mean(one, known)
            hint = hint if hint.startswith("did") else "`chaoskit claims --list` names them"
            hint += "; or give a file, as ./mine.yaml"
            problems.append(Problem(f"there is no claim {one!r}", hint=hint))
    claims = []
    for file in chosen or ([] if problems else known.values()):
        try:
            claims.append(read(file))
        except InvalidInput as error:
            problems += error.problems
    problems += _same_names(claims)
    if problems:
        raise InvalidInput(problems)
    return claims


def named(claim: Claim) -> str:
    """Return how a command names ``claim``, from any folder."""
    return claim.name if Path(claim.file) in files() else os.path.abspath(claim.file)


def _same_names(claims: list[Claim]) -> list[Problem]:
    first: dict[str, str] = {}
    problems = []
    for claim in claims:
        other = first.setdefault(claim.name, claim.file)
        if other != claim.file:
            message = f"the claim {claim.name!r} is also in {other}"
            problems.append(Problem(message, claim.file, hint="rename one of them"))
    return problems


def read(file: Path) -> Claim:
    """Return the claim in ``file``. Raises InvalidInput with every problem."""
    document = read_document(file)
    found = read_model(ClaimFile, document.data, document, ())
    raw = document.data if isinstance(document.data, dict) else {}
    trials = _trials(raw["try"], document) if "try" in raw else ()
    setting = _setting(raw.get("with"), document, ("with",))
    both = _setting(raw.get("both"), document, ("both",))
    if document.problems or found is None:
        raise InvalidInput(sorted(document.problems, key=lambda p: p.line))
    backends = cast(tuple[Backend, ...], found.meant_for)
    return Claim(found.name, found.told, found.source, trials, setting, both, backends, str(file))


def _setting(raw: object, document: Document, path: KeyPath) -> Setting:
    if not isinstance(raw, dict):
        return Setting()  # what is wrong with it, the model has said
    found = read_model(SettingFile, {"env": raw.get("env", {})}, document, path)
    given = raw.get("guards")
    made: list[Guard] = []
    for name, settings in given.items() if isinstance(given, dict) else ():
        here: KeyPath = (*path, "guards", name if isinstance(name, (str, int)) else str(name))
        cls = guards.REGISTRY.get(name) if isinstance(name, str) else None
        if cls is None:
            known = guards.REGISTRY.names()
            document.problem(here, f"there is no guard {shown(name)}", did_you_mean(name, known))
            continue
        values = read_settings(cls, settings, document, here)
        try:
            made += [] if values is None else [cls(**values)]
        except ValueError as error:
            document.problem(here, f"{name}: {str(error).removeprefix(f'{name}: ')}")
    return Setting(tuple(made), found.env if found is not None else ())


def _trials(raw: object, document: Document) -> tuple[Trial, ...]:
    if not isinstance(raw, list) or not raw:
        message = f"try must be a list of scenarios, is {shown(raw)}"
        document.problem(("try",), message, "begin each with '- '")
        return ()
    found = (_trial(entry, document, ("try", number)) for number, entry in enumerate(raw))
    return tuple(trial for trial in found if trial is not None)


def _trial(raw: object, document: Document, path: KeyPath) -> Trial | None:
    read_as = read_model(TrialFile, raw, document, path)
    if read_as is None:
        return None
    try:
        scenario = _scenario(read_as.scenario, Path(document.file).parent)
    except InvalidInput as error:
        for problem in error.problems:
            if problem.file:
                document.problems.append(problem)
            else:
                document.problem((*path, "scenario"), problem.message, problem.hint)
        return None
    within = read_as.expect.within
    timeout = within.timeout if within is not None else None
    if timeout is not None and getattr(read_as, timeout, None) is None:
        message = f"within follows the {timeout} timeout, which this trial does not set"
        document.problem((*path, "expect", "within"), message, f"add {timeout}: 3s to the trial")
    expect = expectation(read_as.expect, scenario.backends)
    timeouts = (read_as.init, read_as.collective)
    return Trial(scenario, expect, *timeouts, read_as.watch, read_as.others, read_as.prints)


def _scenario(name: str, folder: Path) -> Scenario:
    """The scenario of that name, in the library or of the claims' own, or the one in a file beside."""
    return load([folder / name])[0] if is_file(name) else _known_scenario(name)


@functools.cache
def _known_scenario(name: str) -> Scenario:
    own = SCENARIOS / f"{name}.yaml"
    return load([own])[0] if own.is_file() else select([name])[0]
