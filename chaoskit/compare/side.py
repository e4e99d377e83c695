"""One of two runs, as far as a comparison needs it. Frozen values, read by :mod:`chaoskit.compare.files`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from chaoskit import codec
from chaoskit.model import Plan, Result, ScenarioResult, Status, Verdict
from chaoskit.request import WATCH

ArmKey = tuple[str, str, str]
"""Scenario, backend, arm."""
Settings = tuple[tuple[str, str], ...]
"""Name and value, in order."""


@dataclass(frozen=True, slots=True)
class Side:
    """What is known of one run. Empty where its record does not say it."""

    folder: str
    scenarios: tuple[ScenarioResult, ...]
    record: Settings = ()
    """Versions, cores, seed."""
    environment: Settings = ()
    settings: Mapping[ArmKey, Settings] = field(default_factory=dict)
    started: str = ""
    interrupted: bool = False
    has_record: bool = True


def result_of(scenario: ScenarioResult) -> Result:
    """Return its result; a program that was watched as it is counts as held where it ended well."""
    if scenario.name.partition(" ")[0] == WATCH and all(v.arm == WATCH for v in scenario.verdicts):
        status = scenario.verdicts[-1].status if scenario.verdicts else Status.INCONCLUSIVE
        return {Status.PASS: Result.HELD, Status.FAIL: Result.NOT_HELD}.get(status, Result.INCONCLUSIVE)
    return scenario.result


def counting(verdicts: Iterable[Verdict]) -> dict[str, tuple[Verdict, ...]]:
    """Return the verdicts of each arm, of several attempts at one repeat the last."""
    last: dict[tuple[str, int], Verdict] = {}
    for verdict in sorted(verdicts, key=lambda v: (v.repeat, v.attempt)):
        last[verdict.arm, verdict.repeat] = verdict
    arms: dict[str, tuple[Verdict, ...]] = {}
    for (arm, _), verdict in last.items():
        arms[arm] = (*arms.get(arm, ()), verdict)
    return arms


def settings_of(plan: Plan) -> Settings:
    """Return what of a plan was chosen, durations as in production. Neither ports nor the seed."""
    # Rounded: dividing by the time scale again must not make a difference.
    production = plan.profile.scaled(1 / plan.time_scale) if plan.time_scale > 0 else plan.profile
    hosts = len(plan.network.hosts) if plan.network is not None else 1
    found: dict[str, object] = {
        "profile": plan.profile.name,
        "ranks": len(plan.ranks),
        "hosts": hosts,
        "launcher": plan.launcher,
        "time scale": f"{plan.time_scale:.6g}",
        "timeout": plan.timeout_s,
        "time without progress": plan.stall_s,
        "workload": _words(plan.workload.name, plan.workload.settings, plan.workload.args),
        "faults": _compact(plan.injections) if plan.injections else "none",
        "contract": _compact(plan.hardened_contract),
    }
    for guard in production.guards:
        fields = ((f.name, getattr(guard, f.name)) for f in dataclasses.fields(guard))  # type: ignore[arg-type]
        found[f"guard {guard.name}"] = ", ".join(f"{n}={_value(v)}" for n, v in fields) or "on"
    for name, value in plan.profile.env:
        found[f"variable {name}"] = value
    return tuple((name, str(value)) for name, value in found.items() if value is not None)


def _words(name: str, settings: Iterable[tuple[str, object]], args: Iterable[str]) -> str:
    return " ".join([name, *(f"{k}={v}" for k, v in settings), *args])


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _compact(value: object) -> str:
    return json.dumps(codec.encode(value), separators=(",", ":"), sort_keys=True)
