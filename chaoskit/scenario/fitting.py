"""Fits the plain values of a file to the models of :mod:`chaoskit.scenario.schema`.

Every problem is noted at its line, in chaoskit's words instead of pydantic's. What is good in a broken
file can be salvaged, so that the rest of the checks need not wait for its correction.
"""

from __future__ import annotations

import difflib
import inspect
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from chaoskit.model import Fault, Guard
from chaoskit.scenario.schema import PREFIX, model_of
from chaoskit.scenario.source import Document, KeyPath
from chaoskit.scenario.values import did_you_mean, shown

M = TypeVar("M", bound=BaseModel)


def read_settings(
    cls: type[Fault | Guard], raw: object, document: Document, path: KeyPath
) -> dict[str, Any] | None:
    """Return the field values of ``cls`` that ``raw`` gives, or None with the problems noted."""
    found = read_model(model_of(cls), {} if raw is None else raw, document, path)
    return None if found is None else _given(found)


def salvage_settings(cls: type[Fault | Guard], raw: object) -> dict[str, Any] | None:
    """Return the field values that are good in ``raw``, or None where not enough of it is."""
    found = salvage(model_of(cls), {} if raw is None else raw)
    return None if found is None else _given(found)


def _given(found: BaseModel) -> dict[str, Any]:
    given = found.model_fields_set
    return {
        name.removeprefix(PREFIX): getattr(found, name) for name in type(found).model_fields if name in given
    }


def read_model(model: type[M], raw: object, document: Document, path: KeyPath) -> M | None:
    """Return ``raw`` as ``model``, or None with every problem noted at its line."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        misspelt = {e["loc"][:-1]: str(e["loc"][-1]) for e in errors if e["type"] == "extra_forbidden"}
        for one in errors:
            # A key that is there under a slightly wrong name is one mistake, not two.
            similar = misspelt.get(one["loc"][:-1], "") if one["type"] == "missing" else ""
            if not similar or not difflib.get_close_matches(similar, [str(one["loc"][-1])], 1, 0.6):
                _note(one, model, document, path)
        return None


STAND_INS: dict[str | int, object] = {
    "name": "x",
    "summary": "x",
    "workload": "x",
    "arms": {},
    "profile": "torch-defaults",
    "expect": {"outcome": "failed"},
    "outcome": "failed",
}
"""What stands for a required key that is missing or wrong while the rest is looked at."""


def salvage(model: type[M], raw: object) -> M | None:
    """Return the good part of ``raw`` as ``model``; None where too little is good."""
    while True:
        try:
            return model.model_validate(raw)
        except ValidationError as error:
            for one in error.errors(include_url=False, include_context=False):
                location = tuple(part for part in one["loc"] if part != "[key]")
                if not location or (one["type"] == "missing" and location[-1] not in STAND_INS):
                    return None
                stand_in = STAND_INS[location[-1]] if one["type"] == "missing" else _GONE
                raw = _replaced(raw, location, stand_in)


_GONE = object()


def _replaced(raw: object, path: KeyPath, value: object) -> object:
    """Return ``raw`` with ``value`` at ``path``, or with nothing there; an item takes its list with it."""
    if not path or not isinstance(raw, dict):
        return value
    inner = _replaced(raw.get(path[0]), path[1:], value)
    changed = raw | {path[0]: inner}  # in the file's order, which counts for interfaces
    return {key: one for key, one in changed.items() if one is not _GONE}


def _note(error: Any, model: type[BaseModel], document: Document, path: KeyPath) -> None:
    location: tuple[str | int, ...] = tuple(part for part in error["loc"] if part != "[key]")
    where = (*path, *location)
    context = error.get("ctx") or {}
    match error["type"]:
        case "missing":
            document.problem(
                where[:-1], f"{_in(where[:-1])}missing key `{where[-1]}`", _describe(model, location)
            )
            return
        case "extra_forbidden" | "invalid_key":
            hint = did_you_mean(where[-1], _keys(model, location[:-1]))
            document.problem(where, f"{_in(where[:-1])}unknown key `{where[-1]}`", hint)
            return
        case "wrong":
            message, hint = context["message"], context["hint"]
        case "model_type" | "dict_type" | "model_attributes_type":
            message, hint = f"must be a mapping, is {shown(error['input'])}", "write {key: value}"
        case "list_type":
            message, hint = f"must be a list, is {shown(error['input'])}", "begin each item with '- '"
        case "string_type":
            message, hint = f"must be a text, is {shown(error['input'])}", ""
        case _:
            message, hint = str(error["msg"]), ""
    document.problem(where, f"{dotted(where)}{' ' if message[:1].islower() else ': '}{message}", hint)


def dotted(path: KeyPath) -> str:
    """Return ``path`` as a user would say it: ``faults[0].kill.rank``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the file"


def _in(path: KeyPath) -> str:
    return f"{dotted(path)}: " if path else ""


def _inner(model: type[BaseModel], location: tuple[str | int, ...]) -> type[BaseModel]:
    """Return the model at ``location`` inside ``model``."""
    for part in location:
        for field in model.model_fields.values():
            annotation: Any = field.annotation
            nested = [a for a in (annotation, *getattr(annotation, "__args__", ())) if _is_model(a)]
            names = {field.alias, *(n for n, f in model.model_fields.items() if f is field)}
            if nested and part in names:
                model = nested[0]
                break
    return model


def _is_model(annotation: object) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, BaseModel)


def _keys(model: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    return [field.alias or name for name, field in _inner(model, location).model_fields.items()]


def _describe(model: type[BaseModel], location: tuple[str | int, ...]) -> str:
    inner = _inner(model, location[:-1])
    for name, field in inner.model_fields.items():
        if (field.alias or name) == location[-1]:
            return f"it is {field.description}" if field.description else ""
    return ""
