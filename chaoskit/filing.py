"""Writes down, in the folder of a run, what of it exists in memory only, so that a command can name it.

``again/`` gets a file for each scenario that is in none, and ``again/profiles/`` one for each profile. A file
is kept only if what is read from it is the same, and if nothing in it is a secret; what has no file has no
command either.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ruamel.yaml.error import YAMLError

from chaoskit import private
from chaoskit.errors import ChaoskitError
from chaoskit.model import Arm, Expectation, Profile, Scenario
from chaoskit.redacting import Redactor
from chaoskit.request import RunRequest
from chaoskit.rerun import DEFAULTS
from chaoskit.scenario import CONTROL, dump, parse
from chaoskit.scenario.profile_file import parse_profile
from chaoskit.scenario.selection import is_file
from chaoskit.scenario.source import MAX_BYTES
from chaoskit.scenario.values import slug
from chaoskit.scenario.writing import dump_profile

FOLDER, PROFILES = "again", "profiles"
_LONGEST = 60
_CANNOT_BE_SAID = (ChaoskitError, YAMLError, ValueError, TypeError, AttributeError, KeyError, OSError)
"""What writing and reading raise for objects that a program has made and no file can say."""


def filed(request: RunRequest, run_dir: Path, redactor: Redactor) -> RunRequest:
    """Return the request with the files of what had none; the same one where there was nothing to write."""
    loose = [s for s in request.scenarios if not s.file and not _is_run_otherwise(s, request)]
    profile = request.profile
    if not loose and (profile is None or profile.file):
        return request
    cabinet = _Cabinet(run_dir / FOLDER, redactor)
    named = {one.name: cabinet.profile(one) for one in request.profiles} if loose else {}
    files = {id(s): cabinet.scenario(s, named) for s in loose}
    scenarios = (dataclasses.replace(s, file=files.get(id(s), s.file)) for s in request.scenarios)
    if profile is not None and not profile.file:
        profile = dataclasses.replace(profile, file=cabinet.profile(profile))
    return dataclasses.replace(request, scenarios=tuple(scenarios), profile=profile)


def _is_run_otherwise(scenario: Scenario, request: RunRequest) -> bool:
    """Whether none of its arms needs the scenario in a file to be run again."""
    return all((scenario.name, arm.name) in request.again for arm in scenario.arms)


class _Cabinet:
    """The files; each method returns the path of one, or '' where it could not be had."""

    def __init__(self, folder: Path, redactor: Redactor) -> None:
        self._folder = folder
        self._redactor = redactor

    def profile(self, profile: Profile) -> str:
        name = re.sub(r"[^a-z0-9._]+", "-", profile.name.lower()).strip("-._")[:_LONGEST] or "profile"
        if self._redactor.profile(profile) != profile:
            return ""
        with contextlib.suppress(*_CANNOT_BE_SAID):
            path = _free(self._folder / PROFILES, name)
            text = dump_profile(dataclasses.replace(profile, name=name, summary=""))
            read = parse_profile(text, str(path))
            if (read.guards, read.env) == (profile.guards, profile.env):
                return self._written(path, text)
        return ""

    def scenario(self, scenario: Scenario, named: Mapping[str, str]) -> str:
        """``named`` are the files of the profiles that its arms may name."""
        scenario = _whole(scenario)
        profiles = [named.get(arm.profile, _from_anywhere(arm.profile)) for arm in scenario.arms]
        if not all(profiles) or self._is_secret(scenario):
            return ""
        inside = [one.removeprefix(f"{self._folder}/") for one in profiles]  # it may be moved as a whole
        with contextlib.suppress(*_CANNOT_BE_SAID):
            text = dump(_with_profiles(scenario, inside))
            path = _free(self._folder, slug(scenario.name))
            wanted = dataclasses.replace(_with_profiles(scenario, profiles), file=str(path))
            if parse(text, str(path)) == wanted:
                return self._written(path, text)
        return ""

    def _is_secret(self, scenario: Scenario) -> bool:
        shown = (self._redactor.settings(injection.fault) for injection in scenario.injections)
        if any(one != i.fault for one, i in zip(shown, scenario.injections, strict=True)):
            return True
        return self._redactor.words(scenario.workload.args) != scenario.workload.args

    def _written(self, path: Path, text: str) -> str:
        if self._redactor.text(text) != text or len(text.encode()) > MAX_BYTES:
            return ""
        private.folder(path.parent)
        private.write(path, text)
        return str(path)


def _whole(scenario: Scenario) -> Scenario:
    """The scenario with the control that a file must have, also where none is run: it promises nothing."""
    if scenario.arm(CONTROL) is not None:
        return scenario
    return dataclasses.replace(scenario, arms=(Arm(CONTROL, DEFAULTS, Expectation(())), *scenario.arms))


def _with_profiles(scenario: Scenario, names: Iterable[str]) -> Scenario:
    arms = zip(scenario.arms, names, strict=True)
    return dataclasses.replace(scenario, arms=tuple(dataclasses.replace(a, profile=p) for a, p in arms))


def _from_anywhere(name: str) -> str:
    """The name of a profile, or its file as seen from any folder."""
    return str(Path(name).absolute()) if is_file(name) else name


def _free(folder: Path, name: str) -> Path:
    return next(path for path in _numbered(folder, name) if not path.exists())


def _numbered(folder: Path, name: str) -> Iterator[Path]:
    yield folder / f"{name}.yaml"
    number = 2
    while True:
        yield folder / f"{name}-{number}.yaml"
        number += 1
