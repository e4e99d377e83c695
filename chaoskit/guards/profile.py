"""Reads a profile with the standard library alone, so that guards can be deployed with torch and nothing
else.

Understands the part of YAML in which profiles are written: comments, ``key: value``, nesting by indentation
below ``guards:`` and ``env:``, settings of a guard below it or as ``{a: 1, b: 2}`` on its line, braces in
braces on one line. Anything else is refused with its line, never guessed. chaoskit's own commands read
profiles with a full YAML parser and must get the same values.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

import chaoskit.profiles
from chaoskit.errors import InvalidInput, Problem
from chaoskit.guards.family import REGISTRY
from chaoskit.model import Guard, Profile

BUILTIN_DIR = Path(chaoskit.profiles.__file__).parent
_KEYS = ("name", "summary", "guards", "env")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LINE = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z_][\w-]*):(?:\s+(?P<value>.*))?")
_DECIMAL = re.compile(r"\d+\.\d+")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")

Settings = dict[str, tuple[str, int]]
"""Key → text of the value and its line."""


def builtin_names() -> tuple[str, ...]:
    """Return the names of the built-in profiles, sorted."""
    return tuple(sorted(path.stem for path in BUILTIN_DIR.glob("*.yaml")))


def load_profile(name_or_path: str | Path) -> Profile:
    """Return the built-in profile of that name, or the one in that file. Raises InvalidInput with all
    problems."""
    path = BUILTIN_DIR / f"{name_or_path}.yaml"
    if str(name_or_path) not in builtin_names():
        path = Path(name_or_path)
        if not path.is_file():
            close = get_close_matches(str(name_or_path), builtin_names(), 1)
            hint = (
                f"did you mean {close[0]}?"
                if close
                else f"built in: {', '.join(builtin_names())}; or give a file"
            )
            raise InvalidInput([Problem(f"there is no profile {str(name_or_path)!r}", hint=hint)])
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput([Problem(f"cannot be read: {error}", str(path))]) from error
    return _Reader(str(path)).profile(text, path.stem)


def parse_duration(text: str) -> float | None:
    """Return the seconds of ``300s``, ``250ms``, ``1.5m``, ``1h`` or ``300``; None where it is none."""
    match = _DURATION.fullmatch(text.strip())
    return float(match[1]) * _UNITS[match[2] or "s"] if match else None


class _Reader:
    """Reads one file; collects every problem before it raises."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._problems: list[Problem] = []

    def profile(self, text: str, stem: str) -> Profile:
        sections = self._sections(text)
        guards = tuple(
            g for name, (value, line) in sections["guards"].items() if (g := self._guard(name, value, line))
        )
        env = tuple((name, _unquoted(value)) for name, (value, _) in sections["env"].items())
        if self._problems:
            raise InvalidInput(self._problems)
        plain = sections[""]
        name = _unquoted(plain.get("name", (stem, 0))[0])
        return Profile(name, _unquoted(plain.get("summary", ("", 0))[0]), guards, env, self._file)

    def _sections(self, text: str) -> dict[str, Settings]:
        """Split the file: plain keys under '', and the entries of guards and env."""
        sections: dict[str, Settings] = {"": {}, "guards": {}, "env": {}}
        current, depth, last = "", 0, ""
        for number, indent, key, value in self._lines(text):
            if indent and not current:
                self._problem(f"{key} is indented, but stands under neither guards nor env", number)
            elif indent and indent > depth > 0 and last:
                self._deeper(sections[current], last, key, value, number)
            elif indent:
                depth, last = indent, key
                self._set(sections[current], key, value, number)
            elif key not in _KEYS:
                close = get_close_matches(key, _KEYS, 1)
                self._problem(
                    f"unknown key {key!r}",
                    number,
                    f"did you mean {close[0]}?" if close else f"keys: {', '.join(_KEYS)}",
                )
            elif key in ("guards", "env"):
                current, depth, last = key, 0, ""
                for inner, inner_value in self._flow(value, number) if value else ():
                    self._set(sections[key], inner, inner_value, number)
            else:
                current = ""
                self._set(sections[""], key, value, number)
        return sections

    def _deeper(self, section: Settings, parent: str, key: str, value: str, number: int) -> None:
        """A setting on a line of its own below its guard: as if it stood in braces."""
        before, line = section[parent]
        if before and not before.endswith("}"):
            self._problem(f"{key} stands below {parent}, which has a value already", number)
        inner = before[1:-1] + ", " if before else ""
        section[parent] = (f"{{{inner}{key}: {value}}}", line)

    def _lines(self, text: str) -> Iterator[tuple[int, int, str, str]]:
        for number, raw in enumerate(text.splitlines(), 1):
            line = _without_comment(raw)
            if not line.strip() or line == "---":
                continue
            match = _LINE.fullmatch(line)
            if match is None:
                hint = "chaoskit.guards reads `key: value` and `{a: 1}`; chaoskit validate reads all of YAML"
                self._problem(f"cannot be read here: {line.strip()!r}", number, hint)
            else:
                yield number, len(match["indent"]), match["key"], (match["value"] or "").strip()

    def _set(self, section: Settings, key: str, value: str, number: int) -> None:
        if key in section:
            self._problem(f"{key} is given twice", number)
        section[key] = (value, number)

    def _flow(self, text: str, number: int) -> list[tuple[str, str]]:
        """Read ``{a: 1, b: 2}``."""
        if not (text.startswith("{") and text.endswith("}")):
            self._problem(f"expected {{key: value, …}} on one line, got {text!r}", number)
            return []
        pairs = []
        for item in filter(str.strip, _split(text[1:-1])):
            key, colon, value = item.partition(":")
            if not colon:
                self._problem(f"expected key: value, got {item.strip()!r}", number)
            pairs.append((key.strip(), value.strip()))
        return pairs

    def _guard(self, name: str, value: str, number: int) -> Guard | None:
        cls = REGISTRY.get(name)
        if cls is None:
            close = get_close_matches(name, REGISTRY.names(), 1)
            self._problem(f"there is no guard {name!r}", number, f"did you mean {close[0]}?" if close else "")
            return None
        fields = {f.name.removesuffix("_s"): f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        settings: dict[str, object] = {}
        for key, text in self._flow(value, number) if value else ():
            if key not in fields:
                close = get_close_matches(key, fields, 1)
                self._problem(
                    f"{name} has no setting {key!r}",
                    number,
                    f"did you mean {close[0]}?" if close else f"it has: {', '.join(fields)}",
                )
                continue
            field = fields[key]
            setting = parse_duration(text) if field.name.endswith("_s") else _scalar(text)
            if setting is None:
                self._problem(
                    f"{name}: {key}: {text!r} is no duration", number, "write 300s, 250ms, 5m or 1h"
                )
                continue
            if isinstance(field.default, float) and type(setting) is int:
                setting = float(setting)
            if field.default is not None and type(field.default) is not type(setting):
                self._problem(f"{name}: {key}: expected {type(field.default).__name__}, got {text!r}", number)
                continue
            settings[field.name] = setting
        try:
            return cls(**settings)
        except ValueError as error:
            self._problem(str(error), number)
            return None

    def _problem(self, message: str, line: int, hint: str = "") -> None:
        self._problems.append(Problem(message, self._file, line, hint))


def _split(text: str) -> list[str]:
    """Split at the commas that stand in no inner braces."""
    items, depth = [""], 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return items


def _without_comment(line: str) -> str:
    """Drop a comment: a # at the start or after a space, outside quotes."""
    quote = ""
    for at, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#" and (at == 0 or line[at - 1] == " "):
            return line[:at].rstrip()
    return line.rstrip()


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _scalar(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    if _DECIMAL.fullmatch(text):
        return float(text)
    return int(text) if text.isdigit() else _unquoted(text)
