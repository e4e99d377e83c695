"""Reads single values of a file: durations, rank sets, names, outcomes. Each says exactly what is wrong.

A :class:`Kind` is one sort of value: how it is read, and its JSON Schema. The fields of faults and
guards get their kind from their type hints, so a new fault or guard needs nothing here. This module
knows neither files nor pydantic.
"""

from __future__ import annotations

import difflib
import enum
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from chaoskit.model import RankSet, Span

RANKS_MAX = 4096
DURATION_MAX_S = 30 * 86400.0
TIMEOUTS = ("init", "collective", "store")

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ]+)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONG_UNITS = {
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m", "minute": "m",
    "minutes": "m",
    "hour": "h", "hours": "h", "msec": "ms", "millis": "ms", "S": "s", "M": "m", "H": "h", "MS": "ms",
}  # fmt: skip
_SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")


class Wrong(ValueError):
    """A value is not what its place needs. ``hint`` says what to write."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of value: how it is read (raising :class:`Wrong`), and its JSON Schema."""

    read: Callable[[object], object]
    schema: Mapping[str, Any]


def shown(value: object) -> str:
    """Return ``value`` as a message shows it: as YAML says it, and short."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            text = repr(value)
            return text if len(text) <= 60 else text[:57] + "..."


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return a hint with the name in ``known`` that is closest to ``word``, or with all of them."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(str(word)[:80], names, 1, 0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"known: {', '.join(names)}" if names else ""


# ---------------------------------------------------------------- durations


def duration_s(value: object) -> float:
    """Return seconds of ``300s``, ``2m``, ``1.5h``, ``150ms`` or a number of seconds. Raises Wrong."""
    hint = "write 150ms, 2s, 5m, 1h, or a number of seconds"
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value.strip()):
        value = float(value) if len(value) < 30 else value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        unit = match[2]
        if unit not in _UNITS_S:
            better = _LONG_UNITS.get(unit)
            raise Wrong(
                f"{shown(value)} has the unknown unit {unit!r}",
                f"write {match[1]}{better}" if better else hint,
            )
        seconds = float(match[1]) * _UNITS_S[unit]
    else:
        raise Wrong(f"must be a duration, is {shown(value)}", hint)
    if not 0 <= seconds <= DURATION_MAX_S:
        below = seconds < 0
        raise Wrong(f"{shown(value)} is {'less than 0' if below else 'more than 30 days'}", hint)
    return seconds


def span(value: object) -> Span:
    """Return a duration, or ``{timeout: NAME, times: N, plus: DURATION}``. Raises Wrong."""
    if not isinstance(value, dict):
        return Span(plus_s=duration_s(value))
    keys = ("timeout", "times", "plus")
    for key in value:
        if key not in keys:
            raise Wrong(f"has the unknown key `{key}`", did_you_mean(key, keys))
    name = value.get("timeout")
    if name not in TIMEOUTS:
        raise Wrong(
            f"timeout must be one of {', '.join(TIMEOUTS)}, is {shown(name)}",
            did_you_mean(name, TIMEOUTS) if name else "",
        )
    times = value.get("times", 1)
    if isinstance(times, bool) or not isinstance(times, (int, float)) or not 0 < times <= 1000:
        raise Wrong(f"times must be a number above 0 and at most 1000, is {shown(times)}")
    try:
        plus = duration_s(value.get("plus", 0.0))
    except Wrong as wrong:
        raise Wrong(f"plus: {wrong.message}", wrong.hint) from None
    timeout: Literal["init", "collective", "store"] = name
    return Span(plus, timeout, float(times))


_DURATION_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": DURATION_MAX_S},
        {"type": "string", "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h)?$"},
    ],
    "description": "seconds, or a text such as 150ms, 2s, 5m, 1h",
}
_RELATIVE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["timeout"],
    "properties": {
        "timeout": {"enum": list(TIMEOUTS)},
        "times": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000, "default": 1},
        "plus": _DURATION_SCHEMA,
    },
    "description": "a multiple of a timeout of the profile under test, and something on top",
}
SPAN = Kind(span, {"anyOf": [*_DURATION_SCHEMA["anyOf"], _RELATIVE_SCHEMA]})
DURATION = Kind(duration_s, _DURATION_SCHEMA)


def _duration_kind(members: tuple[object, ...]) -> Kind:
    """The kind of a field named ``*_s``: a number, a Span, or a word, as its type says."""
    words = [word for m in members if get_origin(m) is Literal for word in get_args(m)]
    has_span, has_number = Span in members, float in members or int in members

    def read(value: object) -> object:
        if value in words and isinstance(value, str):
            return value
        if value is None and type(None) in members:
            return None
        if isinstance(value, dict) and has_span:
            return span(value)
        try:
            seconds = duration_s(value)
        except Wrong as wrong:
            other = f", or {' or '.join(words)}" if words else ""
            raise Wrong(wrong.message, wrong.hint + other) from None
        return seconds if has_number or not has_span else Span(plus_s=seconds)

    options = list(_DURATION_SCHEMA["anyOf"])
    options += [_RELATIVE_SCHEMA] if has_span else []
    options += [{"enum": words}] if words else []
    options += [{"type": "null"}] if type(None) in members else []
    return Kind(read, {"anyOf": options})


# ---------------------------------------------------------------- names, texts, numbers


def text(value: object) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be a text, is {shown(value)}", "put it in quotes" if value is not None else "")
    if not value.strip():
        raise Wrong("must not be empty")
    return value


def slug(value: object) -> str:
    if not isinstance(value, str) or not _SLUG.fullmatch(value):
        hint = "use small letters, digits, '-', '_' and '.', at most 80, beginning with a letter or digit"
        raise Wrong(f"must be a name, is {shown(value)}", hint)
    return value


def folder_name(value: object) -> str:
    """Return a text that can be the name of a folder, of an arm for example. Raises Wrong."""
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= 80:
        raise Wrong(f"must be a name of 1 to 80 printable letters, is {shown(value)}")
    if "/" in value or value in (".", ".."):
        raise Wrong(f"must be a name without a '/', is {shown(value)}", "it becomes the name of a folder")
    return value


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, is {shown(value)}", "write true or false, without quotes")
    return value


def whole(low: int, high: int) -> Kind:
    """A whole number from ``low`` to ``high``."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Wrong(f"must be a whole number from {low} to {high}, is {shown(value)}")
        if not low <= value <= high:
            raise Wrong(f"must be from {low} to {high}, is {value}")
        return value

    return Kind(read, {"type": "integer", "minimum": low, "maximum": high})


def choice(names: Iterable[str]) -> Kind:
    """One of ``names``."""
    known = tuple(names)

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise Wrong(f"must be one of {', '.join(known)}, is {shown(value)}", did_you_mean(value, known))
        return value

    return Kind(read, {"enum": list(known)})


def list_of(kind: Kind) -> Kind:
    """A list; a single value where a list is expected is named as such."""

    def read(value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise Wrong(f"must be a list, is {shown(value)}", "write [one, two]")
        items = []
        for number, item in enumerate(value, 1):
            try:
                items.append(kind.read(item))
            except Wrong as wrong:
                raise Wrong(f"item {number} {wrong.message}", wrong.hint) from None
        return tuple(items)

    return Kind(read, {"type": "array", "items": dict(kind.schema)})


def rank_set(value: object) -> RankSet:
    """Return ``1``, ``[1, 3]`` or ``all`` as a set of ranks. Raises Wrong."""
    if value == "all":
        return "all"
    hint = "write a rank (1), a list ([1, 3]) or all"
    ranks = value if isinstance(value, list) else [value]
    if not ranks:
        raise Wrong("names no rank", hint)
    for rank in ranks:
        if isinstance(rank, bool) or not isinstance(rank, int):
            raise Wrong(
                f"must be ranks, is {shown(value)}"
                if not isinstance(value, list)
                else f"holds {shown(rank)}",
                hint,
            )
        if not 0 <= rank < RANKS_MAX:
            raise Wrong(f"rank {rank} does not exist", "ranks count from 0")
    if len(set(ranks)) != len(ranks):
        raise Wrong("names a rank twice")
    return tuple(ranks)


_RANK_SCHEMA = {"type": "integer", "minimum": 0, "maximum": RANKS_MAX - 1}
RANK_SET = Kind(
    rank_set,
    {
        "anyOf": [
            _RANK_SCHEMA,
            {"type": "array", "items": _RANK_SCHEMA, "minItems": 1, "uniqueItems": True},
            {"const": "all"},
        ]
    },
)


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def environment(value: object) -> tuple[tuple[str, str], ...]:
    """Return a mapping of environment variables as pairs; whole numbers become texts. Raises Wrong."""
    if not isinstance(value, dict):
        raise Wrong(f"must be a mapping, is {shown(value)}", 'write {NAME: "value"}')
    pairs = []
    for name, entry in value.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise Wrong(f"{shown(name)} is no name of an environment variable")
        if isinstance(entry, bool) or not isinstance(entry, (str, int)):
            raise Wrong(
                f"{name} must be a text, is {shown(entry)}",
                "put it in quotes, as it stands in the environment",
            )
        pairs.append((name, str(entry)))
    return tuple(pairs)


TEXT = Kind(text, {"type": "string", "minLength": 1})
ANY_TEXT = Kind(lambda v: v if v == "" else text(v), {"type": "string"})
SLUG = Kind(slug, {"type": "string", "pattern": f"^{_SLUG.pattern}$"})
BOOLEAN = Kind(boolean, {"type": "boolean"})
ENVIRONMENT = Kind(environment, {"type": "object", "additionalProperties": {"type": ["string", "integer"]}})

# ---------------------------------------------------------------- from the type hint of a field

_SCALARS: dict[object, tuple[str, str]] = {
    bool: ("true or false", "boolean"),
    int: ("a whole number", "integer"),
    float: ("a number", "number"),
    str: ("a text", "string"),
    type(None): ("nothing", "null"),
}


def yaml_key(field_name: str) -> str:
    """Return the key in YAML of a dataclass field: ``for_s`` is ``for``, ``class_`` is ``class``."""
    return field_name.removesuffix("_s").rstrip("_")


def kind_of(hint: object, field_name: str) -> Kind:
    """Return the kind of a dataclass field. Raises TypeError for a hint that no YAML value is known for."""
    if hint == RankSet:
        return RANK_SET
    members = _members(hint)
    if field_name.endswith("_s") and (Span in members or float in members or int in members):
        return _duration_kind(members)
    if Span in members:
        return SPAN
    if len(members) == 1:
        return _single(members[0], field_name)
    if all(m in _SCALARS or get_origin(m) is Literal for m in members):
        return _scalar_kind(members)
    if type(None) in members and len(members) == 2:
        inner = kind_of(next(m for m in members if m is not type(None)), field_name)
        return Kind(
            lambda v: None if v is None else inner.read(v), {"anyOf": [dict(inner.schema), {"type": "null"}]}
        )
    raise TypeError(f"{field_name}: no YAML value is known for the type {hint}")


def _members(hint: object) -> tuple[object, ...]:
    origin = get_origin(hint)
    return get_args(hint) if origin is Union or origin is types.UnionType else (hint,)


def _single(hint: object, field_name: str) -> Kind:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SCALARS or origin is Literal:
        return _scalar_kind((hint,))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum_kind(hint)
    if hint == tuple[tuple[str, str], ...] or (origin in (dict, Mapping) and arguments == (str, str)):
        return ENVIRONMENT
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return list_of(kind_of(arguments[0], field_name.removesuffix("_s")))
    raise TypeError(f"{field_name}: no YAML value is known for the type {hint}")


def _scalar_kind(members: tuple[object, ...]) -> Kind:
    """One of a few plain types, or one of some words."""
    words = [word for m in members if get_origin(m) is Literal for word in get_args(m)]
    plain = [m for m in members if m in _SCALARS]
    if not plain:
        return choice(words)
    wanted = " or ".join([*(_SCALARS[m][0] for m in plain if m is not type(None)), *words])

    def read(value: object) -> object:
        if value in words or any(type(value) is m for m in plain):
            return value
        if type(value) is int and float in plain:
            return float(value)
        raise Wrong(
            f"must be {wanted}, is {shown(value)}",
            "put it in quotes" if str in plain and value is not None else "",
        )

    options: list[dict[str, Any]] = [{"type": [_SCALARS[m][1] for m in plain]}]
    return Kind(read, {"anyOf": [*options, {"enum": words}]} if words else options[0])


def _enum_kind(hint: type[enum.Enum]) -> Kind:
    texts = {str(m.value) if isinstance(m.value, str) else m.name: m for m in hint}
    named = choice(texts)
    return Kind(lambda v: texts[typing.cast(str, named.read(v))], named.schema)
