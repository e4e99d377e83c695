"""Under what settings an arm ran, as texts: its profile, its fault, its times. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chaoskit.events import Event, GuardArmed
from chaoskit.model import Fault, Guard, Plan, Profile, Verdict
from chaoskit.reports.wording import Fact, plural, production_bound_of, seconds


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """One guard of a profile. ``settings`` are those of this run, after the time scale."""

    name: str
    lives_in: str
    settings: str


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """A profile as it was in effect. Equal ones of several arms are shown once."""

    name: str
    summary: str
    time_scale: float
    guards: tuple[GuardSettings, ...]
    env: tuple[str, ...]


def of_profile(profile: Profile, time_scale: float) -> ProfileSettings:
    """Return the settings of ``profile``, which is scaled already."""
    guards = tuple(GuardSettings(g.name, g.lives_in, _fields(g)) for g in profile.guards)
    env = tuple(f"{name}={value}" for name, value in profile.env)
    return ProfileSettings(profile.name, profile.summary, time_scale, guards, env)


def facts(plan: Plan, verdict: Verdict) -> Iterator[Fact]:
    """Yield what a plan says beside its profile and its contract."""
    yield "workload", _workload(plan)
    for injection in plan.injections:
        yield "fault", f"{injection.fault.name} ({_fields(injection.fault)}) {injection.when}"
    yield "processes", f"{plural(len(plan.ranks), 'rank')} on {plan.backend}, started by {plan.launcher}"
    if plan.network is not None:
        yield "virtual hosts", ", ".join(host.name for host in plan.network.hosts)
    yield "seed", str(plan.seed)
    yield "time scale", _scale(plan.time_scale)
    if plan.bound_s is not None:
        yield "bound", f"{seconds(plan.bound_s)} from the injection (never scaled below what the file adds)"
    if production := production_bound_of(verdict):
        yield "production", f"{production.removeprefix('in production ')}: extrapolated, not measured"
    yield "deadline", f"{seconds(plan.deadline_s)} from the injection"
    if plan.timeout_s is not None:
        yield "--timeout", seconds(plan.timeout_s)
    if verdict.not_applicable:
        yield "not applicable here", ", ".join(verdict.not_applicable)


def in_effect(events: Iterable[Event]) -> tuple[tuple[str, str, int], ...]:
    """Return each guard that said it is in effect, with its settings as read back, and on how many ranks."""
    counts: dict[tuple[str, str], int] = {}
    for event in events:
        if isinstance(event, GuardArmed):
            said = ", ".join(event.effective) if event.applicable else "not applicable"
            counts[event.guard, said] = counts.get((event.guard, said), 0) + 1
    return tuple((guard, said, count) for (guard, said), count in counts.items())


def _workload(plan: Plan) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in plan.workload.settings)
    program = " ".join([plan.workload.target, *plan.workload.args]).strip()
    return " ".join(p for p in (plan.workload.name, f"({settings})" if settings else "", program) if p)


def _scale(scale: float) -> str:
    return "1 (production durations)" if scale == 1 else f"{scale:.4g} of the production durations"


def _fields(value: Guard | Fault) -> str:
    """Return the fields that are set, as ``timeout 3 s, signal SIGTERM``."""
    said = []
    for field in dataclasses.fields(value):  # type: ignore[arg-type]  # guards and faults are dataclasses
        found = getattr(value, field.name)
        if found is None or found == "" or found == ():
            continue
        name = field.name.removesuffix("_s").replace("_", " ")
        is_time = field.name.endswith("_s") and isinstance(found, (int, float))
        said.append(f"{name} {seconds(found) if is_time else _value(found)}")
    return ", ".join(said)


def _value(found: object) -> str:
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, tuple):
        return " ".join(map(_value, found))
    return str(found)
