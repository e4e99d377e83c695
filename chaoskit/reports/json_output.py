"""The one JSON object of ``--format json``. Its shape is versioned: additive changes only.

Every number is finite (JSON has neither NaN nor Infinity) and durations are rounded to a
millisecond, below which nothing here is meant.
"""

from __future__ import annotations

import json
import math
from collections import Counter

from chaoskit.model import JsonValue, Operation, RankEnd, Result, ScenarioResult, Verdict
from chaoskit.reports.exit_code import exit_code
from chaoskit.reports.judged import Judged, is_watch

SCHEMA_VERSION = 1


def render(judged: Judged) -> str:
    """Return the object as JSON text with a final newline."""
    text = json.dumps(document(judged), indent=2, allow_nan=False, ensure_ascii=True)
    # In the log of a GitHub job this would be a command to its runner. JSON has it in texts only.
    return text.replace("##[", "#\\u0023[") + "\n"


def document(judged: Judged) -> dict[str, JsonValue]:
    """Return the object whose schema ``chaoskit schema output`` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_dir": str(judged.run_dir),
        "seed": judged.seed,
        "torch": judged.torch,
        "scenarios": [_scenario(s) for s in judged.scenarios],
        "verdicts": [_verdict(v, s) for s in judged.scenarios for v in s.verdicts],
        "summary": _summary(judged),
        "wall_s": _rounded(judged.wall_s),
    }


def _summary(judged: Judged) -> dict[str, int]:
    counts = Counter(s.result for s in judged.scenarios)
    code = exit_code(judged.scenarios, interrupted=judged.interrupted)
    return {**{r.value: counts[r] for r in Result}, "exit_code": int(code)}


def _scenario(result: ScenarioResult) -> dict[str, JsonValue]:
    return {
        "name": None if is_watch(result) else result.name,
        "backend": result.backend,
        "result": result.result.value,
        "reason": result.reason,
    }


def _verdict(verdict: Verdict, of: ScenarioResult) -> dict[str, JsonValue]:
    """The verdict; a program that was watched as it is belongs to no scenario."""
    return {
        "scenario": None if is_watch(of) else verdict.scenario,
        "arm": verdict.arm,
        "repeat": verdict.repeat,
        "attempt": verdict.attempt,
        "backend": verdict.backend,
        "profile": verdict.profile,
        "status": verdict.status.value,
        "outcome": None if verdict.outcome is None else verdict.outcome.value,
        "kind": None if verdict.kind is None else verdict.kind.value,
        "reason": verdict.reason,
        "bound_s": _rounded(verdict.bound_s),
        "production_bound_s": _rounded(verdict.production_bound_s),
        "latency_s": _rounded(verdict.latency_s),
        "culprits": [{"kind": c.kind, "id": c.id} for c in verdict.culprits],
        "victims": list(verdict.victims),
        "where": verdict.where,
        "ranks": [_rank(r) for r in verdict.ranks],
        "rerun": verdict.rerun,
        "bites": verdict.bites,
        "ambiguous": verdict.ambiguous,
        "not_applicable": list(verdict.not_applicable),
        "notes": list(verdict.notes),
        "stragglers": [{"kind": c.kind, "id": c.id} for c in verdict.stragglers],
        "ended_by": list(verdict.ended_by),
        "cause": verdict.cause,
        "at": _operation(verdict.at),
        "sureness": None if verdict.sureness is None else verdict.sureness.value,
        "evidence": list(verdict.evidence),
    }


def _rank(end: RankEnd) -> dict[str, JsonValue]:
    return {
        "rank": end.rank,
        "exit_code": end.exit_code,
        "ended_s": _rounded(end.ended_s),
        "last": _operation(end.last),
    }


def _operation(one: Operation | None) -> dict[str, JsonValue] | None:
    return None if one is None else {"op": one.op, "group": one.group, "nth": one.nth}


def _rounded(value: float | None) -> float | None:
    """Return ``value`` to the millisecond; None for what JSON cannot say."""
    if value is None or not math.isfinite(value):
        return None
    return round(value, 3) + 0.0  # no -0.0
