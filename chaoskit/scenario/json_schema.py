"""JSON Schemas of scenario and profile files, from the same models that read them."""

from __future__ import annotations

import inspect
import math
from typing import Any

from chaoskit import faults, guards, workloads
from chaoskit.model import Fault, Guard
from chaoskit.scenario import programs
from chaoskit.scenario.profile_file import profile_names
from chaoskit.scenario.reader import WORDS, setting_kind
from chaoskit.scenario.schema import KnownFile, ProfileFile, ScenarioFile, WhenFile, model_of
from chaoskit.scenario.values import yaml_key

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


def scenario_schema() -> Schema:
    """Return the schema of a scenario file."""
    schema: Schema = ScenarioFile.model_json_schema()
    properties = schema["properties"]
    definitions: Schema = schema.setdefault("$defs", {})
    definitions["When"] = {"anyOf": [_inlined(WhenFile.model_json_schema()), {"enum": list(WORDS)}]}
    names = faults.REGISTRY.names()
    properties["faults"] = {
        "type": "array",
        "items": {"oneOf": [_fault(_known_class(faults.REGISTRY.get(name))) for name in names]},
    }
    properties["workload"] = {
        "anyOf": [
            {"enum": workloads.names()},
            *(_workload(n) for n in workloads.names()),
            *programs.SCHEMAS,
        ]
    }
    known = _inlined(KnownFile.model_json_schema())
    properties["known"] = {
        "type": "object",
        "propertyNames": {"enum": list(profile_names())},
        "additionalProperties": {"anyOf": [known, {"type": "array", "items": known}]},
    }
    properties["arms"] |= {"required": ["control", "hardened"]}
    return {"$schema": DIALECT, **_finite(schema), "title": "chaoskit scenario"}


def profile_schema() -> Schema:
    """Return the schema of a profile file."""
    schema: Schema = ProfileFile.model_json_schema()
    members = {name: _settings(_known_class(guards.REGISTRY.get(name))) for name in guards.REGISTRY.names()}
    schema["properties"]["guards"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"anyOf": [settings, {"type": "null"}]} for name, settings in members.items()},
    }
    return {"$schema": DIALECT, **_finite(schema), "title": "chaoskit profile"}


def _finite(schema: Any) -> Any:
    """Return ``schema`` without the defaults that JSON has no number for (never: infinity)."""
    if isinstance(schema, list):
        return [_finite(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _finite(value) for key, value in schema.items()}
    if isinstance(default := kept.get("default"), float) and not math.isfinite(default):
        del kept["default"]
    return kept


def _known_class(cls: type[Any] | None) -> type[Any]:
    assert cls is not None, "a name of the registry"
    return cls


def _fault(cls: type[Fault]) -> Schema:
    settings = _settings(cls)
    if not settings.get("required"):
        settings = {"anyOf": [settings, {"type": "null"}]}
    needs_when = [] if cls.triggers <= set(WORDS) else ["when"]
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [cls.name, *needs_when],
        "properties": {cls.name: settings, "when": {"$ref": "#/$defs/When"}},
    }


def _settings(cls: type[Fault | Guard]) -> Schema:
    schema = _inlined(model_of(cls).model_json_schema(by_alias=True))
    schema["description"] = inspect.getdoc(cls) or ""
    return schema


def _workload(name: str) -> Schema:
    program = workloads.get(name)
    assert program is not None, "a name of the family"
    settings = {
        yaml_key(key): {**setting_kind(key, value).schema, "default": value}
        for key, value in program.settings
    }
    inner = {"type": "object", "additionalProperties": False, "properties": settings}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name],
        "properties": {name: inner},
        "description": program.summary,
    }


def _inlined(schema: Schema) -> Schema:
    """Drop what pydantic adds for itself."""
    cleaned = {k: v for k, v in schema.items() if k != "title"}
    properties = cleaned.get("properties", {})
    cleaned["properties"] = {k: {i: j for i, j in v.items() if i != "title"} for k, v in properties.items()}
    return cleaned
