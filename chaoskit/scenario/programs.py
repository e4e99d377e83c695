"""A program of the user's in the place of a built-in workload: how a file or a command says it.

Files and the command line build their :class:`~chaoskit.model.Workload` here, so both say the same of a
script that is not there. This module may look whether a script exists; it may not read or run it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from chaoskit.model import Workload
from chaoskit.scenario.values import Wrong, did_you_mean, shown

KINDS: Final = frozenset({"script", "module", "command"})
_KEYS: Final = {"script": ("args",), "module": ("args",), "command": ()}

_ARGS: Final[dict[str, Any]] = {"type": "array", "items": {"type": ["string", "number"]}}


def _schema(kind: str, value: Mapping[str, Any], about: str) -> dict[str, Any]:
    args = dict.fromkeys(_KEYS[kind], _ARGS)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [kind],
        "properties": {kind: dict(value), **args},
        "description": about,
    }


SCHEMAS: Final = (
    _schema("script", {"type": "string"}, "a Python file of yours, as seen from this file's folder"),
    _schema("module", {"type": "string"}, "a module of yours, as for `python -m`"),
    _schema("command", {**_ARGS, "minItems": 1}, "the whole command of a launcher that starts the ranks"),
)
"""The JSON Schemas of the three kinds."""


def script(path: str | Path, args: Sequence[str] = (), folder: Path | None = None) -> Workload:
    """Return the script ``path`` (relative to ``folder``) as a workload. Raises Wrong where it is no file."""
    target = os.path.abspath(Path(folder or Path(), path))
    if not os.path.exists(target):
        hint = _beside(target) or "a relative path is seen from the folder of the scenario file"
        raise Wrong(f"{str(path)!r} does not exist (looked for {target})", hint)
    if not os.path.isfile(target):
        raise Wrong(f"{str(path)!r} is no file", "name the Python file that a launcher would start")
    return Workload(os.path.basename(target), kind="script", target=target, args=tuple(args))


def _beside(target: str) -> str:
    """Return a hint with the Python file in the same folder that was probably meant."""
    try:
        names = [n for n in os.listdir(os.path.dirname(target)) if n.endswith(".py")]
    except OSError:
        return ""
    hint = did_you_mean(os.path.basename(target), names)
    return hint if hint.startswith("did you mean") else ""


def module(name: str, args: Sequence[str] = ()) -> Workload:
    """Return the module ``name`` as a workload. Raises Wrong where it is no dotted name."""
    is_file = name.endswith(".py")
    if is_file or not all(part.isidentifier() for part in name.split(".")):
        hint = "give a file as a script" if is_file else "write it as for python -m: pkg.train"
        raise Wrong(f"must be the dotted name of a module, is {shown(name)}", hint)
    return Workload(name, kind="module", target=name, args=tuple(args))


def command(words: Sequence[str]) -> Workload:
    """Return the command line of a launcher as a workload. Raises Wrong where it is empty."""
    if not words or not words[0].strip():
        raise Wrong("names no program", "write [torchrun, --nproc-per-node=4, train.py]")
    return Workload(os.path.basename(words[0]) or words[0], kind="command", args=tuple(words))


def read_program(
    raw: Mapping[Any, object], folder: Path
) -> tuple[Workload | None, tuple[tuple[str, Wrong], ...]]:
    """Return what ``{script: …}``, ``{module: …}`` or ``{command: …}`` says, or what is wrong, by its key."""
    kinds = [key for key in raw if key in KINDS]
    if len(kinds) > 1:
        return None, (("", Wrong(f"names two programs: {' and '.join(kinds)}", "give one of them")),)
    (kind,) = kinds
    wrongs: list[tuple[str, Wrong]] = []
    for key in raw:
        if key != kind and key not in _KEYS[kind]:
            known = (kind, *_KEYS[kind])
            hint = "its arguments stand in the list" if key == "args" else did_you_mean(key, known)
            wrongs.append((str(key), Wrong("is unknown here", hint)))
    args: tuple[str, ...] = ()
    try:
        args = _words(raw["args"]) if "args" in raw and kind != "command" else ()
    except Wrong as wrong:
        wrongs.append(("args", wrong))
    try:
        program = _built(kind, raw[kind], args, folder)
    except Wrong as wrong:
        wrongs.append((kind, wrong))
    return (None, tuple(wrongs)) if wrongs else (program, ())


def _built(kind: str, value: object, args: tuple[str, ...], folder: Path) -> Workload:
    if kind == "command":
        return command(_words(value))
    if not isinstance(value, str) or not value.strip():
        raise Wrong(f"must be a text, is {shown(value)}")
    return script(value, args, folder) if kind == "script" else module(value, args)


def _words(value: object) -> tuple[str, ...]:
    """Return a list of arguments as texts; numbers are written as they would be typed."""
    if not isinstance(value, list):
        hint = f"write [{', '.join(value.split())}]" if isinstance(value, str) and value.strip() else ""
        raise Wrong(f"must be a list, is {shown(value)}", hint or "write [--steps, 20]")
    words = []
    for number, word in enumerate(value, 1):
        if isinstance(word, bool) or not isinstance(word, (str, int, float)):
            raise Wrong(f"item {number} must be a text or a number, is {shown(word)}", "put it in quotes")
        words.append(str(word))
    return tuple(words)
