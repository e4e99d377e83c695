"""What was asked of a matrix, in a file beside its cells, so that it can be gone on with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from chaoskit.errors import ChaoskitError, InvalidInput, usage
from chaoskit.matrix import files
from chaoskit.matrix.request import MatrixRequest

FILE = "asked.json"
SCHEMA_VERSION = 1
Options = dict[str, str | tuple[str, ...]]
LISTED = frozenset({"selectors", "columns", "require", "behind"})
"""The options that may be given several times, and the arguments of a program; all others are single."""


def write(folder: Path, request: MatrixRequest, conditions: Mapping[str, str]) -> None:
    """Write what was asked, with the seed that was drawn. Raises ChaoskitError."""
    asked = {**dict(request.asked), "seed": str(request.run.seed)}
    body = {
        "schema_version": SCHEMA_VERSION,
        "options": asked,
        "command": request.run.command,
        "conditions": dict(conditions),
    }
    temporary = folder / f"{FILE}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8", opener=files.opener) as file:
            file.write(json.dumps(body, indent=1) + "\n")
        temporary.replace(folder / FILE)
    except OSError as error:
        raise ChaoskitError(f"{folder / FILE} cannot be written: {error.strerror}") from None


def changed(folder: Path, conditions: Mapping[str, str]) -> tuple[str, ...]:
    """Return which conditions are others than when the matrix was last run: its cells are then run again."""
    try:
        before = json.loads(files.read(folder / FILE))["conditions"]
        return tuple(name for name, value in conditions.items() if before.get(name) != value)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()


def read(folder: Path) -> Options:
    """Return the options of the matrix in ``folder``. Raises InvalidInput where that is none."""
    path = folder / FILE
    try:
        raw = json.loads(files.read(path))
    except FileNotFoundError:
        raise usage(f"{folder} is no folder of a matrix: it has no {FILE}", _hint(folder)) from None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from None
    options = raw.get("options") if isinstance(raw, dict) else None
    if not isinstance(options, dict) or raw.get("schema_version") != SCHEMA_VERSION:
        raise _unreadable(path, "not what this version of chaoskit writes")
    return {str(name): _value(path, name, value) for name, value in options.items()}


def _value(path: Path, name: str, value: object) -> str | tuple[str, ...]:
    if name in LISTED and isinstance(value, list) and all(map(_is_typed, value)):
        return tuple(value)
    if name not in LISTED and isinstance(value, str) and _is_typed(value):
        return value
    wanted = "a list of texts" if name in LISTED else "one text"
    raise _unreadable(
        path, f"{str(name)[:40]!r} has a value of a kind that it cannot have: {wanted} is expected"
    )


def _is_typed(value: object) -> bool:
    """Return whether it is a text that can be typed: no NUL, nothing that has no UTF-8."""
    return isinstance(value, str) and "\0" not in value and not re.search("[\ud800-\udfff]", value)


def _unreadable(path: Path, why: str) -> InvalidInput:
    hint = "name the scenarios and the profile beside --resume, and begin anew where that does not help"
    return usage(f"{path} cannot be read: {why[:200]}", hint)


def _hint(folder: Path) -> str:
    found = sorted(p.parent.name for p in folder.glob(f"*/{FILE}")) if folder.is_dir() else []
    return (
        f"there are: {', '.join(found[-5:])}" if found else "give the folder that `chaoskit matrix` printed"
    )
