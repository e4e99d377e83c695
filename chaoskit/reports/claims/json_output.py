"""The JSON object of ``chaoskit claims``. Its shape is versioned: additive changes only."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from chaoskit import codec
from chaoskit.claims.answering import combined
from chaoskit.claims.values import Answer, Claim, ClaimFinding, ClaimsReport, Run, Setting, TrialFinding
from chaoskit.model import JsonValue

SCHEMA_VERSION = 1


def render(report: ClaimsReport) -> str:
    """Return the object as JSON text with a final newline. Folders are relative to the current one."""
    on = report.surroundings
    head = {
        "schema_version": SCHEMA_VERSION,
        "torch": on.torch,
        "python": on.python,
        "kernel": on.kernel,
        "cores": on.cores,
        "load": on.load,
        "chaoskit": on.chaoskit,
        "repeats": report.repeats,
        "seed": report.seed,
        "wall_s": round(report.wall_s, 1),
        "interrupted": report.interrupted,
        "run_dir": _shown(report.run_dir),
        "not_run": dict(report.not_run),
    }
    return lines(head, [_claim(finding, report.run_dir) for finding in report.findings])


def answered_again(text: str) -> str:
    """Return a JSON of :func:`render` with the answers of claims as they follow today from those of their
    trials. Nothing is run, and what was seen stays as it is."""
    raw = json.loads(text)
    for claim in raw["claims"]:
        trials = [(Answer(one["answer"]), _came(one["with"])) for one in claim["trials"]]
        claim["answer"] = combined(trials).value
    return lines({key: value for key, value in raw.items() if key != "claims"}, raw["claims"])


def _came(runs: list[dict[str, JsonValue]]) -> bool:
    return bool(runs) and all(run["kept"] for run in runs)


def lines(head: dict[str, JsonValue], claims: list[dict[str, JsonValue]]) -> str:
    """Return the object with a line for each claim: these files are kept under version control."""
    members = [f'"{key}": {_dumped(value)}' for key, value in head.items()]
    rows = ",\n  ".join(_dumped(claim) for claim in claims)
    members.append(f'"claims": [\n  {rows}\n ]' if claims else '"claims": []')
    return "{\n " + ",\n ".join(members) + "\n}\n"


def _dumped(value: JsonValue) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=True)


def _claim(finding: ClaimFinding, run_dir: Path) -> dict[str, JsonValue]:
    claim: Claim = finding.claim
    return {
        "name": claim.name,
        "backend": finding.backend,
        "told": claim.told,
        "source": list(claim.source),
        "meant_for": list(claim.meant_for),
        "setting": setting_text(claim.setting),
        "both": setting_text(claim.both),
        "answer": finding.answer.value,
        "says": finding.says,
        "trials": [_trial(trial, run_dir) for trial in finding.trials],
    }


def setting_text(setting: Setting) -> list[str]:
    """Return a setting in words: ``NAME=VALUE``, ``guard(key=value)``."""
    variables = [f"{name}={value}" for name, value in setting.env]
    guards = []
    for guard in setting.guards:
        encoded = codec.encode(guard)
        assert isinstance(encoded, dict)
        fields = next(iter(encoded.values()))
        given = ", ".join(f"{key}={value}" for key, value in fields.items())
        guards.append(f"{guard.name}({given})")
    return [*variables, *guards]


def _trial(trial: TrialFinding, run_dir: Path) -> dict[str, JsonValue]:
    return {
        "scenario": trial.scenario,
        "timeouts": trial.timeouts,
        "watched_s": trial.watched_s,
        "others": trial.others,
        "healthy": trial.healthy,
        "answer": trial.answer.value,
        "says": trial.says,
        "without": [_run(run, run_dir) for run in trial.without],
        "with": [_run(run, run_dir) for run in trial.with_it],
    }


def _run(run: Run, run_dir: Path) -> dict[str, JsonValue]:
    latency_s = run.latency_s
    finite = latency_s is not None and math.isfinite(latency_s)
    return {
        "outcome": None if run.outcome is None else run.outcome.value,
        "latency_s": round(latency_s, 3) if latency_s is not None and finite else None,
        "exits": {str(rank): code for rank, code in run.exits},
        "culprits": list(run.culprits),
        "kept": run.kept,
        "printed": run.printed,
        "unclear": run.unclear,
        "folder": os.path.relpath(run.folder, run_dir),
    }


def _shown(path: Path) -> str:
    """Return the path as seen from here; of one elsewhere only its name."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name
