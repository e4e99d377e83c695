"""Reads what a comparison needs beside the verdicts: the record of a run, and the plans of its arms.

The files may be damaged, cut off or foreign: what cannot be read is a problem in words, and left out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from chaoskit import rundir
from chaoskit.compare.side import ArmKey, Settings, Side, settings_of
from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Plan, ScenarioResult, Verdict
from chaoskit.request import WATCH, ArmId

_RECORD: Final = "run.json"
_PLAN: Final = "plan.json"


def read(
    run_dir: Path, scenarios: tuple[ScenarioResult, ...], load_plan: Callable[[str], Plan]
) -> tuple[Side, list[Problem]]:
    """Return the run in ``run_dir``, of which ``scenarios`` were judged, and what of it cannot be read."""
    problems: list[Problem] = []
    record = _record(run_dir, problems)
    settings: dict[ArmKey, Settings] = {}
    scenarios = tuple(_told_apart(run_dir, scenario, load_plan) for scenario in scenarios)
    for scenario in scenarios:
        for verdict in scenario.verdicts:
            key = (scenario.name, verdict.backend, verdict.arm)
            if key not in settings and (plan := _plan(run_dir, verdict, load_plan)) is not None:
                settings[key] = settings_of(plan)
    side = Side(
        folder=str(run_dir),
        scenarios=scenarios,
        record=_facts(record),
        environment=_texts(record.get("environment")),
        settings=settings,
        started=_text(record.get("started")),
        interrupted=record.get("interrupted") is True,
        has_record=bool(record),
    )
    return side, problems


def _told_apart(run_dir: Path, scenario: ScenarioResult, load_plan: Callable[[str], Plan]) -> ScenarioResult:
    """Return a program that was watched under a name of its own: two of them are not the same thing."""
    watched = scenario.name == WATCH and all(v.arm == WATCH for v in scenario.verdicts)
    if not watched or not scenario.verdicts:
        return scenario
    plan = _plan(run_dir, scenario.verdicts[0], load_plan)
    return scenario if plan is None else dataclasses.replace(scenario, name=f"{WATCH} {plan.workload.name}")


def _record(run_dir: Path, problems: list[Problem]) -> dict[str, object]:
    file = run_dir / _RECORD
    hint = "versions and environment of that run are not known"
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems.append(Problem("is not there", str(file), hint=hint))
        return {}
    except (OSError, ValueError, RecursionError):
        return {}  # whoever judged the run has said so
    return {str(k): v for k, v in raw.items()} if isinstance(raw, dict) else {}


def _facts(record: dict[str, object]) -> Settings:
    given = record.get("not_given_to_ranks")
    withheld = ", ".join(map(str, given)) if isinstance(given, list) and given else ""
    facts = {**dict(_texts(record.get("versions"))), "cores": _text(record.get("cores"))}
    facts |= {"seed": _text(record.get("seed")), "variables not given to ranks": withheld}
    return tuple((name, value) for name, value in facts.items() if value)


def _texts(raw: object) -> Settings:
    return tuple((str(k), _text(v)) for k, v in raw.items()) if isinstance(raw, dict) else ()


def _text(raw: object) -> str:
    return str(raw) if isinstance(raw, (str, int, float)) else ""


def _plan(run_dir: Path, verdict: Verdict, load_plan: Callable[[str], Plan]) -> Plan | None:
    arm = ArmId(verdict.scenario, verdict.arm, verdict.backend, verdict.repeat, verdict.attempt)
    for folder in (rundir.arm_dir(run_dir, arm), run_dir):  # an arm's own folder may be what was judged
        try:
            return load_plan((folder / _PLAN).read_text(encoding="utf-8"))
        except (OSError, ValueError, InvalidInput):
            continue
    return None
