"""``chaoskit.run``: the Python way in. Everything it does is also what the command line does."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from chaoskit import engine
from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Profile, Scenario, Verdict
from chaoskit.request import Observer, RunRequest
from chaoskit.scenario import load, load_profile, select
from chaoskit.scenario.values import Wrong, folder_name, slug


def run(
    scenario: Scenario | str | Path,
    *,
    profile: Profile | str | Path | None = None,
    repeat: int = 1,
    seed: int | None = None,
    ranks: int | None = None,
    jobs: int | None = None,
    timeout_s: float | None = None,
    time_scale: float | None = None,
    runs_dir: str | Path = "runs",
    observer: Observer | None = None,
) -> tuple[Verdict, ...]:
    """Run a scenario (an object, a library name, or a file) and return the verdicts of its arms.

    ``profile`` (an object, a built-in name, or a file) replaces the hardened arm's profile; the
    control arm still runs. Must be called from the main thread. Raises InvalidInput for a bad
    file or argument, with all problems at once.
    """
    if isinstance(scenario, Scenario):
        _check_names(scenario)
        scenarios: tuple[Scenario, ...] = (_as_in_file(scenario),)
    else:
        scenarios = tuple(select([str(scenario)]))
    request = RunRequest(
        scenarios=scenarios,
        profile=profile if profile is None else _profile(profile),
        repeat=repeat,
        seed=seed,
        ranks=ranks,
        jobs=jobs,
        timeout_s=timeout_s,
        time_scale=time_scale,
        runs_dir=Path(runs_dir),
        command="chaoskit.run",
    )
    return engine.run(request, observer).verdicts


def _check_names(scenario: Scenario) -> None:
    """Names become folders. Raises InvalidInput where one is none that a file could have."""
    problems = []
    names = [(slug, "the scenario's name", scenario.name)]
    names += [(folder_name, "the name of an arm", arm.name) for arm in scenario.arms]
    for check, what, name in names:
        try:
            check(name)
        except Wrong as wrong:
            problems.append(Problem(f"{what} {wrong.message}", hint=wrong.hint))
    if problems:
        raise InvalidInput(problems)


def _as_in_file(scenario: Scenario) -> Scenario:
    """Return the scenario; without its file, where that says something else: it was changed since."""
    with contextlib.suppress(InvalidInput):
        if not scenario.file or load([scenario.file]) == [scenario]:
            return scenario
    return dataclasses.replace(scenario, file="")


def _profile(profile: Profile | str | Path) -> Profile:
    if not isinstance(profile, Profile):
        return load_profile(str(profile))
    with contextlib.suppress(InvalidInput):
        if not profile.file or load_profile(Path(profile.file)) == profile:
            return profile
    return dataclasses.replace(profile, file="")
