"""From claims to what the engine runs: scenarios with an arm for each claim, and one without any setting.

Pure. Trials of several claims that differ in nothing but the setting share the arm without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from chaoskit.claims.values import Claim, Setting, Trial
from chaoskit.guards.timeouts import Timeouts
from chaoskit.model import Arm, Backend, Expectation, Guard, Profile, Scenario, Span
from chaoskit.scenario.checks import CONTROL


@dataclass(frozen=True, slots=True)
class Bench:
    """One scenario as it is run: an arm without a setting, and one for each of the claims."""

    scenario: Scenario
    backend: Backend
    members: tuple[tuple[Claim, Trial], ...]
    profiles: tuple[Profile, ...]


def benches(claims: Iterable[Claim], backends: Iterable[Backend]) -> list[Bench]:
    """Return what is to be run, for each of ``backends``, in the order of the claims."""
    shared: dict[tuple[object, ...], list[tuple[Claim, Trial]]] = {}
    for claim in claims:
        for trial in claim.trials:
            timing = (trial.init_s, trial.collective_s, trial.watched_s)
            same = (trial.scenario.name, trial.scenario.file, *timing, claim.both)
            shared.setdefault(same, []).append((claim, trial))
    made = []
    for backend in backends:
        taken: dict[str, int] = {}
        for members in shared.values():
            name = members[0][1].scenario.name
            taken[name] = taken.get(name, 0) + 1
            unique = name if taken[name] == 1 else f"{name}-{taken[name]}"
            made.append(_bench(unique, backend, members))
    return made


def _bench(name: str, backend: Backend, members: list[tuple[Claim, Trial]]) -> Bench:
    first, trial = members[0]
    given = trial.scenario
    without = _profile(f"without@{name}", first.both, trial)
    profiles = [without]
    arms = []
    # How long is waited has to be the same in all arms; what the claims expect is looked at later.
    within = None if trial.watched_s is None else Span(trial.watched_s)
    for claim, own in members:
        expect = dataclasses.replace(own.expect, within=within)
        profile = without
        if claim.setting:
            profile = _profile(f"{claim.name}@{name}", _added(claim.both, claim.setting), trial)
            profiles.append(profile)
        arms.append(Arm(claim.name, profile.name, expect))
    if any(claim.setting for claim, _ in members):  # of torch as it is, the one arm is the whole truth
        arms.insert(0, Arm(CONTROL, without.name, _nothing(backend, given)))
    topology = dataclasses.replace(given.topology, backend=backend)
    scenario = dataclasses.replace(given, name=name, topology=topology, arms=tuple(arms), known=(), file="")
    return Bench(scenario, backend, tuple(members), tuple(profiles))


def _nothing(backend: Backend, scenario: Scenario) -> Expectation:
    """What the arm without the setting promises: nothing. Of a scenario that is not for the backend, it is
    said that it is skipped, and some promise is asked for."""
    if backend in scenario.backends:
        return Expectation(())
    control = scenario.arm(CONTROL)
    return control.expect if control is not None else Expectation(())


def _added(both: Setting, setting: Setting) -> Setting:
    guards = {guard.name: guard for guard in (*both.guards, *setting.guards)}
    return Setting(tuple(guards.values()), tuple({**dict(both.env), **dict(setting.env)}.items()))


def _profile(name: str, setting: Setting, trial: Trial) -> Profile:
    guards: list[Guard] = list(setting.guards)
    names = {guard.name for guard in guards}
    if (trial.init_s is not None or trial.collective_s is not None) and "timeouts" not in names:
        init_s = trial.init_s if trial.init_s is not None else trial.collective_s or 0.0
        collective_s = trial.collective_s if trial.collective_s is not None else init_s
        guards.insert(0, Timeouts(init_s, collective_s, max(init_s, collective_s)))
    return Profile(name, "", tuple(guards), setting.env)
