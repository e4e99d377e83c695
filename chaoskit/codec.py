"""Plan and Verdict ↔ JSON, faithfully: what is read back equals what was written.

Everything follows the fields and type hints of the frozen dataclasses, so a new field needs nothing
here. A fault or a guard is written as ``{name: {field: value}}``. Stdlib only: ranks read their plan with
this. JSON has no infinity; such a number is written as a text.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from chaoskit import faults, guards
from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Fault, Guard, JsonValue, Plan, Verdict
from chaoskit.registry import Registry

SCHEMA_VERSION = 1

T = TypeVar("T")


class _Mismatch(ValueError):
    """A value is not what the type hint asks for."""


def dump_plan(plan: Plan) -> str:
    """Return ``plan`` as the text of plan.json."""
    return _text(encode(plan))


def load_plan(text: str) -> Plan:
    """Return the plan of plan.json's text. Raises InvalidInput with what is wrong with it."""
    return _load(Plan, text, "plan.json")


def dump_verdict(verdict: Verdict) -> str:
    """Return ``verdict`` as the text of verdict.json."""
    return _text({"schema_version": SCHEMA_VERSION, **encode(verdict)})


def load_verdict(text: str) -> Verdict:
    """Return the verdict of verdict.json's text. Raises InvalidInput with what is wrong with it."""
    return _load(Verdict, text, "verdict.json")


def _text(value: JsonValue) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def _load(cls: type[T], text: str, file: str) -> T:
    try:
        raw = json.loads(text)
        if not isinstance(raw, dict):
            raise _Mismatch("not a JSON object")
        version = raw.get("schema_version")
        if version != SCHEMA_VERSION or isinstance(version, bool):
            raise _Mismatch(f"schema_version is {version!r}; this chaoskit reads {SCHEMA_VERSION}")
        if cls is not Plan:  # the others have no such field
            del raw["schema_version"]
        return decode(cls, raw)
    except (ValueError, RecursionError) as error:
        message = f"not a {file} of this version of chaoskit: {str(error) or type(error).__name__}"
        raise InvalidInput([Problem(message[:400], file)]) from None


# ---------------------------------------------------------------- writing


def encode(value: object) -> JsonValue:
    """Return ``value`` (a dataclass, tuple, enum or plain value) as JSON values."""
    if isinstance(value, (Fault, Guard)):
        return {value.name: _fields(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        return {str(k): encode(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} has no place in a plan")


def _fields(value: Any) -> dict[str, JsonValue]:
    return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}


# ---------------------------------------------------------------- reading


def decode(hint: type[T], raw: JsonValue) -> T:
    """Return ``raw`` as a value of the type ``hint``. Raises ValueError with what is wrong."""
    found: T = _decode(hint, raw, "")
    return found


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _decode(hint: Any, raw: JsonValue, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union or origin is types.UnionType:
        return _one_of(arguments, raw, where)
    if origin is Literal:
        if any(raw == word and type(raw) is type(word) for word in arguments):
            return raw
    elif origin is tuple:
        return _tuple(arguments, raw, where)
    elif origin is dict:
        if isinstance(raw, dict):
            return {k: _decode(arguments[1], v, f"{where}.{k}") for k, v in raw.items()}
    elif hint is Fault or hint is Guard:
        return _member(hint, raw, where)
    elif dataclasses.is_dataclass(hint):
        return _dataclass(hint, raw, where)
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        if raw in [m.value for m in hint]:
            return hint(raw)
    elif hint is float:
        return _float(raw, where)
    elif hint is type(None):
        if raw is None:
            return None
    elif hint in (int, str, bool) and type(raw) is hint:
        return raw
    raise _Mismatch(f"{where or 'it'} is {str(raw)[:60]!r}, expected {getattr(hint, '__name__', hint)}")


def _one_of(hints: tuple[Any, ...], raw: JsonValue, where: str) -> Any:
    # An int is a float only where no int is allowed: both come back as they were written.
    ordered = sorted(hints, key=lambda h: (h is float, h is str))
    for hint in ordered:
        try:
            return _decode(hint, raw, where)
        except _Mismatch:
            continue
    raise _Mismatch(f"{where} is {str(raw)[:60]!r}, which has none of the types that it may have")


def _float(raw: JsonValue, where: str) -> float:
    if raw in ("inf", "-inf", "nan") or (isinstance(raw, (int, float)) and not isinstance(raw, bool)):
        try:
            return float(raw)
        except OverflowError:
            pass
    raise _Mismatch(f"{where} is {str(raw)[:60]!r}, expected a number")


def _tuple(hints: tuple[Any, ...], raw: JsonValue, where: str) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise _Mismatch(f"{where} is {str(raw)[:60]!r}, expected a list")
    if len(hints) == 2 and hints[1] is Ellipsis:
        return tuple(_decode(hints[0], item, f"{where}[{n}]") for n, item in enumerate(raw))
    if len(hints) != len(raw):
        raise _Mismatch(f"{where} has {len(raw)} items, expected {len(hints)}")
    return tuple(
        _decode(h, item, f"{where}[{n}]") for n, (h, item) in enumerate(zip(hints, raw, strict=True))
    )


def _dataclass(cls: Any, raw: JsonValue, where: str) -> Any:
    if not isinstance(raw, dict):
        raise _Mismatch(f"{where or 'it'} is {str(raw)[:60]!r}, expected an object")
    hints = _hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]
    unknown = [name for name in raw if name not in names]
    if unknown:
        raise _Mismatch(f"{where or 'it'} has the unknown field {unknown[0]!r}")
    values = {name: _decode(hints[name], value, f"{where}.{name}".lstrip(".")) for name, value in raw.items()}
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise _Mismatch(f"{where or 'it'}: {error}") from None


def _member(base: Any, raw: JsonValue, where: str) -> Any:
    if not isinstance(raw, dict) or len(raw) != 1:
        raise _Mismatch(f"{where} is {str(raw)[:60]!r}, expected one name with its settings")
    ((name, settings),) = raw.items()
    registry: Registry[Any] = faults.REGISTRY if base is Fault else guards.REGISTRY
    cls = registry.get(name)
    if cls is None:
        raise _Mismatch(f"{where}: there is no {base.__name__.lower()} {name!r} here")
    return _dataclass(cls, settings, f"{where}.{name}")
