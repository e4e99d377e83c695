"""The profiles of the columns: what *alone*, *without* and *plus* make of a profile. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable

from chaoskit.errors import usage
from chaoskit.model import Profile, Scenario
from chaoskit.scenario import hardened_arm, load_profile

BARE = "torch-defaults"


def parts_of(profile: Profile) -> tuple[str, ...]:
    """Return the names of its guards, then of its variables."""
    return (*(guard.name for guard in profile.guards), *(name for name, _ in profile.env))


def only(profile: Profile, parts: Collection[str], name: str) -> Profile:
    """Return ``profile`` with none but these parts."""
    guards = tuple(g for g in profile.guards if g.name in parts)
    env = tuple((key, value) for key, value in profile.env if key in parts)
    return dataclasses.replace(profile, name=name, guards=guards, env=env)


def alone(profile: Profile, part: str) -> Profile:
    return only(profile, {part}, f"{profile.name}: {part} alone")


def without(profile: Profile, part: str) -> Profile:
    return only(profile, set(parts_of(profile)) - {part}, f"{profile.name} without {part}")


def subset(profile: Profile, parts: Iterable[str], number: int) -> Profile:
    return only(profile, set(parts), f"{profile.name}: set {number}")


def plus(profile: Profile, source: Profile, part: str) -> Profile:
    """Return ``profile`` with ``part`` as ``source`` has it; it takes the place of the profile's own."""
    name = f"{profile.name} plus {part}"
    guard = source.guard(part)
    if guard is not None:
        mine = [guard if g.name == part else g for g in profile.guards]
        guards = tuple(mine if profile.guard(part) is not None else [*mine, guard])
        return dataclasses.replace(profile, name=name, guards=guards)
    env = {**dict(profile.env), part: dict(source.env)[part]}
    return dataclasses.replace(profile, name=name, env=tuple(env.items()))


def additions(profile: Profile, source: Profile) -> tuple[str, ...]:
    """Return the parts of ``source`` that ``profile`` has not, or has with other settings."""
    mine = {part: _settings(profile, part) for part in parts_of(profile)}
    return tuple(part for part in parts_of(source) if mine.get(part) != _settings(source, part))


def _settings(profile: Profile, part: str) -> object:
    guard = profile.guard(part)
    return guard if guard is not None else dict(profile.env)[part]


def tested(scenario: Scenario, profile: Profile | None) -> Profile:
    """Return the profile under test in this row: the one asked for, else the scenario's own."""
    return profile if profile is not None else own(scenario)


def own(scenario: Scenario) -> Profile:
    """Return the profile that the scenario's file hardens with."""
    arm = hardened_arm(scenario)
    if arm is None:
        raise usage(f"{scenario.name} has no arm besides the control")
    return load_profile(arm.profile)
