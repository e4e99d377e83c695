"""An event as one line of JSON and back. Import it from :mod:`chaoskit.history`.

What reads a line believes nothing: what is no event, or has a value of another type, is a ValueError that
says so. May not know files.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, get_args, get_origin, get_type_hints

from chaoskit.events import Event

EVENT_TYPES: dict[str, type[Event]] = {c.__name__: c for c in Event.__subclasses__()}

encode: Callable[[object], str] = json.JSONEncoder(separators=(",", ":")).encode
"""JSON on one line, without spaces."""


def to_line(event: Event) -> str:
    """Return ``event`` as one line of JSON, its kind first."""
    kind = type(event)
    names, values = _reading(kind)  # type: ignore[arg-type] # mypy thinks a class with frozen instances unhashable
    return encode({"kind": kind.__name__, **dict(zip(names, values(event), strict=True))})


def from_line(line: str | bytes) -> Event:
    """Return the event of one line. Raises ValueError with what is wrong with it."""
    return from_fields(json.loads(line))


def from_fields(raw: object) -> Event:
    """Return the event that a line's JSON tells of. Raises ValueError with what is wrong with it."""
    name = raw.get("kind") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(name, str) or name not in EVENT_TYPES:
        raise ValueError("not an event of a chaoskit history")
    kind = EVENT_TYPES[name]
    values = _values(kind, raw)
    make: Callable[..., Event] = kind
    return make(*values)


def _values(kind: type[Event], raw: Mapping[str, object]) -> list[object]:
    values: list[object] = []
    wrong: list[str] = []
    missing: list[str] = []
    for name, default, types, fits in _fields(kind):  # type: ignore[arg-type]
        value = raw.get(name, _UNTOLD)
        if value is _UNTOLD:
            value = default
            if default is _UNTOLD:
                missing.append(name)
        else:
            if type(value) is list:
                value = tuple(value)
            if type(value) not in types or (fits is not None and not fits(value)):
                wrong.append(name)
        values.append(value)
    if missing:
        raise ValueError(f"{kind.__name__}: missing {', '.join(missing)}")
    if wrong:
        shown = repr(raw[wrong[0]])[:60]
        raise ValueError(f"{kind.__name__}: {', '.join(wrong)} cannot be {shown}")
    return values


# ---------------------------------------------------------------- what is known of each kind, worked out once


class _Untold:
    """Stands for a value that a line does not have."""


_UNTOLD = _Untold()
_Check = Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class _Hint:
    """What a value of a type hint is: one of these types, and more that has to hold, if anything."""

    types: frozenset[type]
    fits: _Check | None = None


@functools.cache
def _reading(kind: type[Event]) -> tuple[tuple[str, ...], Callable[[Event], tuple[object, ...]]]:
    """The names of the fields, and what reads them all of an event."""
    names = tuple(f.name for f in dataclasses.fields(kind))
    return names, attrgetter(*names)


@functools.cache
def _fields(kind: type[Event]) -> tuple[tuple[str, object, frozenset[type], _Check | None], ...]:
    """Of each field its name, its default, the types its value may have, and what else has to hold."""
    hints = get_type_hints(kind)
    found = []
    for field in dataclasses.fields(kind):
        default = _UNTOLD if field.default is dataclasses.MISSING else field.default
        hint = _hint(hints[field.name])
        found.append((field.name, default, hint.types, _finite if field.name == "t_s" else hint.fits))
    return tuple(found)


def _hint(hint: object) -> _Hint:
    if get_origin(hint) is Literal:
        allowed = get_args(hint)
        return _Hint(frozenset(map(type, allowed)), lambda value: value in allowed)
    if get_origin(hint) is tuple:
        inner = _hint(get_args(hint)[0])
        return _Hint(frozenset({tuple}), functools.partial(_all_fit, inner))
    if hint is float:
        return _Hint(frozenset({int, float}), _is_in_range)
    assert isinstance(hint, type)
    return _Hint(frozenset({hint}))


def _all_fit(hint: _Hint, value: object) -> bool:
    assert isinstance(value, tuple)
    if not hint.types.issuperset(map(type, value)):
        return False
    return hint.fits is None or all(map(hint.fits, value))


def _is_in_range(value: object) -> bool:
    """Is this number none that is beyond all floats?"""
    return type(value) is float or abs(value) <= sys.float_info.max  # type: ignore[arg-type] # an int then


def _finite(value: object) -> bool:
    try:
        return math.isfinite(value)  # type: ignore[arg-type] # its type has been looked at
    except OverflowError:  # an integer beyond all floats
        return False
