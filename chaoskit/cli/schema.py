"""``chaoskit schema``: JSON Schemas, for editors that complete files and programs that read the output."""

from __future__ import annotations

import dataclasses
import enum
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from chaoskit.cli.printing import say_json
from chaoskit.model import Result, ScenarioResult, Verdict

Schema = dict[str, Any]
ADDED = (
    "bites", "ambiguous", "not_applicable", "notes", "stragglers", "ended_by", "cause", "at", "sureness",
    "evidence",
)  # fmt: skip
"""Fields of a verdict that came later: a reader of the first output has to do without them."""


@click.command("schema")
@click.argument("what", type=click.Choice(["scenario", "profile", "output", "comparison"]))
def schema(what: str) -> None:
    """Print the JSON Schema of scenario files, profile files, or the JSON that run, judge and compare print.

    output is what run and judge print, comparison what compare does.
    """
    if what in ("output", "comparison"):
        say_json(output_schema() if what == "output" else comparison_schema())
        return
    from chaoskit.scenario import json_schema

    say_json(json_schema.scenario_schema() if what == "scenario" else json_schema.profile_schema())


def output_schema() -> Schema:
    """Return the schema of the JSON of ``run --format json``. Later versions only add to it."""
    scenario = _object(ScenarioResult, leave_out=("verdicts",))
    verdict = _object(Verdict)
    # What earlier versions did not write may be missing.
    verdict["required"] = [name for name in verdict["required"] if name not in ADDED]
    for described, name in ((scenario, "name"), (verdict, "scenario")):
        described["properties"][name] = {
            "type": ["string", "null"],
            "description": "null for a program that was watched as it is",
        }
    properties: Schema = {
        "schema_version": {"const": 1},
        "run_dir": {"type": "string"},
        "seed": {"type": ["integer", "null"], "description": "null where several runs are judged together"},
        "torch": {"type": "string"},
        "scenarios": {"type": "array", "items": scenario},
        "verdicts": {"type": "array", "items": verdict},
        "summary": {
            "type": "object",
            "properties": {r.value: {"type": "integer", "minimum": 0} for r in Result},
            "required": [r.value for r in Result],
        },
        "wall_s": {"type": ["number", "null"]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "chaoskit output",
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def comparison_schema() -> Schema:
    """Return the schema of the JSON of ``compare --format json``. Later versions only add to it."""
    from chaoskit.compare.comparison import Comparison

    described = _object(Comparison)
    counts = ("broke", "lost_sight_of", "now_failing", "exit_code")
    summary = {name: {"type": "integer", "minimum": 0} for name in counts}
    described["properties"] |= {
        "schema_version": {"const": 1},
        "summary": {"type": "object", "properties": summary, "required": list(counts)},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "chaoskit comparison",
        **described,
        "required": ["schema_version", *described["required"], "summary"],
    }


def _object(cls: type[Any], leave_out: tuple[str, ...] = ()) -> Schema:
    hints = get_type_hints(cls)
    fields = [f.name for f in dataclasses.fields(cls) if f.name not in leave_out]
    return {
        "type": "object",
        "properties": {name: _schema(hints[name]) for name in fields},
        "required": fields,
    }


def _schema(hint: Any) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union or origin is types.UnionType:
        return {"anyOf": [_schema(a) for a in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0])}
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        return _object(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [m.value for m in hint]}
    return {
        "type": {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}[hint]
    }
