"""Scenario and Profile → YAML text, as a person would write it. What :func:`dump` writes, ``load`` reads back
equal; what :func:`dump_profile` writes, ``load_profile``."""

from __future__ import annotations

import dataclasses
import enum
import io
from collections.abc import Mapping
from typing import Any, cast

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.main import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from chaoskit.model import (
    ALL_RANKS,
    Arm,
    Expectation,
    Fault,
    Injection,
    Known,
    Profile,
    Scenario,
    Span,
    Topology,
    Trigger,
    Workload,
)
from chaoskit.scenario.schema import UNOBSERVED
from chaoskit.scenario.source import is_plain_text
from chaoskit.scenario.topology import written
from chaoskit.scenario.values import yaml_key

Plain = Any  # what a YAML file can hold: dict, list, str, int, float, bool, None


def dump(scenario: Scenario) -> str:
    """Return ``scenario`` as the text of a file."""
    top: dict[str, Plain] = {"name": scenario.name, "summary": scenario.summary, "family": scenario.family}
    top |= {"healthy": True} if scenario.healthy else {}
    for key in ("seen_in", "tags", "requires"):
        if getattr(scenario, key):
            top[key] = list(getattr(scenario, key))
    if scenario.backends != ("gloo", "nccl"):
        top["backends"] = list(scenario.backends)
    top["workload"] = _workload(scenario.workload)
    top["topology"] = written(scenario.topology)
    top["faults"] = [_injection(i) for i in scenario.injections]
    top["arms"] = {arm.name: _arm(arm, scenario) for arm in scenario.arms}
    if scenario.known:
        top["known"] = _known(scenario.known)
    return _text(top)


def dump_profile(profile: Profile) -> str:
    """Return ``profile`` as the text of a file."""
    top: dict[str, Plain] = {"name": profile.name}
    top |= {"summary": profile.summary} if profile.summary else {}
    if profile.guards:
        top["guards"] = {guard.name: settings(guard) for guard in profile.guards}
    if profile.env:
        top["env"] = dict(profile.env)
    return _text(top)


def _text(top: dict[str, Plain]) -> str:
    yaml = YAML()
    yaml.width = 4096
    yaml.allow_unicode = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(_laid_out(top, block_levels=2), out)
    return out.getvalue()


def _workload(workload: Workload) -> Plain:
    if workload.kind == "command":
        return {"command": list(workload.args)}
    if not workload.is_built_in:
        args = {"args": list(workload.args)} if workload.args else {}
        return {workload.kind: workload.target, **args}
    settings = {yaml_key(key): value for key, value in workload.settings}
    return {workload.name: settings} if settings else workload.name


def _injection(injection: Injection) -> dict[str, Plain]:
    return {injection.fault.name: settings(injection.fault), "when": _when(injection.when)}


def settings(member: Fault | object) -> dict[str, Plain]:
    """Return the settings of a fault or guard that differ from their defaults, by their keys in YAML."""
    found = {}
    for field in dataclasses.fields(cast(Any, member)):
        value = getattr(member, field.name)
        if value != field.default or type(value) is not type(field.default):
            found[yaml_key(field.name)] = _ranks(value) if field.name == "rank" else _plain(value)
    return found


def _ranks(value: object) -> Plain:
    if value == ALL_RANKS or not isinstance(value, tuple):
        return value
    return value[0] if len(value) == 1 else list(value)


def _plain(value: object) -> Plain:
    match value:
        case Span():
            return _span(value)
        case enum.Enum():
            return value.value if isinstance(value.value, str) else value.name
        case tuple() if value and all(isinstance(v, tuple) and len(v) == 2 for v in value):
            return dict(cast(tuple[tuple[str, str], ...], value))
        case Mapping():
            return dict(value)
        case tuple() | list():
            return [_plain(v) for v in value]
        case _:
            return value


def _span(span: Span) -> Plain:
    if span.timeout is None:
        return span.plus_s
    found: dict[str, Plain] = {"timeout": span.timeout}
    found |= {"times": span.times} if span.times != 1 else {}
    return found | ({"plus": span.plus_s} if span.plus_s else {})


def _when(when: Trigger) -> Plain:
    match when.kind:
        case "init" | "launch":
            return when.kind
        case "after":
            return {"after": when.after_s}
        case "step":
            return {"step": when.step}
        case "call":
            return {"call": when.call, "nth": when.nth, "phase": when.phase.value}
        case "forward" | "backward":
            return {when.kind: when.module, "nth": when.nth, "phase": when.phase.value}
        case "loader":
            return {"loader": "any", "nth": when.nth, "phase": when.phase.value}
        case "write":
            return {"write": when.path, "nth": when.nth}
    found: dict[str, Plain] = {"step": when.step} if when.step else {}
    found |= {"op": when.op, "nth": when.nth, "phase": when.phase.value}
    return found | ({"group": when.group} if when.group != "default" else {})


def _arm(arm: Arm, scenario: Scenario) -> dict[str, Plain]:
    return {"profile": arm.profile, "expect": _expect(arm.expect, scenario)}


def _expect(expect: Expectation, scenario: Scenario) -> dict[str, Plain]:
    outcomes = {backend: outcome.value for backend, outcome in expect.outcome}
    same = len(set(outcomes.values())) == 1 and tuple(outcomes) == scenario.backends
    written_out = next(iter(outcomes.values())) if same else outcomes
    found: dict[str, Plain] = {"outcome": written_out or UNOBSERVED}
    if expect.within is not None:
        found["within"] = _span(expect.within)
    if expect.exit_codes:
        found["exit"] = ({"job": expect.exit} if expect.exit else {}) | dict(expect.exit_codes)
    elif expect.exit is not None:
        found["exit"] = expect.exit
    if expect.culprits is not None:
        found["culprits"] = [str(c) for c in expect.culprits]
    if expect.kind is not None:
        found["kind"] = expect.kind.value
    return found | ({"says": expect.says} if expect.says else {})


def _known(known: tuple[Known, ...]) -> dict[str, Plain]:
    found: dict[str, Plain] = {}
    for one in known:
        entry: dict[str, Plain] = {"result": one.result.value}
        entry |= {"outcome": one.outcome.value} if one.outcome is not None else {}
        entry |= {"backend": one.backend} if one.backend != Topology().backend else {}
        entry |= {"why": one.why} if one.why else {}
        found.setdefault(one.profile, []).append(entry)
    return {profile: entries[0] if len(entries) == 1 else entries for profile, entries in found.items()}


def _laid_out(value: Plain, block_levels: int) -> Plain:
    """Write the outer levels on lines of their own and the inner ones on one line each."""
    if isinstance(value, dict):
        mapping = CommentedMap((_laid_out(k, 0), _laid_out(v, block_levels - 1)) for k, v in value.items())
        if block_levels <= 0 or not value:
            mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list):
        items = CommentedSeq(_laid_out(v, block_levels) for v in value)
        if block_levels <= 0 or not value or not isinstance(value[0], dict):
            items.fa.set_flow_style()
        return items
    if isinstance(value, str) and _needs_quotes(value):
        return DoubleQuotedScalarString(value)
    return value


_BREAKS = set("\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")


def _needs_quotes(text: str) -> bool:
    """Where ruamel would not put them: a `?` first in a list on one line begins a key."""
    broken = bool(_BREAKS & set(text))  # YAML takes U+0085 and others for line breaks
    return not is_plain_text(text) or broken or text == "<<" or text.startswith("?")
