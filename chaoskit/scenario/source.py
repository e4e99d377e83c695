"""Reads a YAML file into plain values, and remembers the line of each.

Everything that a file can do to a reader is met here: bombs, huge files, bytes that are no text,
duplicate keys, values that YAML turns into something else (dates, ``1_000``, tags). The parser's
events are read one by one and no object is ever constructed, so the file decides nothing. This
module knows nothing of scenarios.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.main import YAML
from ruamel.yaml.reader import ReaderError

from chaoskit.errors import InvalidInput, Problem

MAX_BYTES = 64 * 1024
"""ruamel needs up to a second for this much (measured, worst case); a scenario has 2 KiB."""
MAX_EVENTS = 5_000
MAX_DEPTH = 20

KeyPath = tuple[str | int, ...]

_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")
_UNDERSCORED = re.compile(r"[-+]?[0-9][0-9_.]*_[0-9_.]*([eE][-+]?[0-9]+)?")
_OTHER_BASE = re.compile(r"[-+]?0[xob][0-9a-fA-F_]+")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


_HINTS = {
    "mapping values are not allowed": "put a text that has ': ' in it in quotes",
    "cannot start any token": "put a text that begins with @, `, % or a tab in quotes; indent with spaces",
    "expected <block end>": "is the line indented like the others of its list or mapping?",
    "expected ',' or": "a bracket or brace is not closed, or a comma is missing",
    "could not find expected ':'": "write 'key: value', with a space after the colon",
    "quoted scalar": "a quote is not closed",
}
"""What most often lies behind a message of the parser."""


@dataclass(slots=True)
class Document:
    """The plain values of a file (dict, list, str, int, float, bool, None) and their lines.

    ``broken`` are the places that already have a problem: nothing more should be said of them.
    """

    file: str
    data: object = None
    problems: list[Problem] = field(default_factory=list)
    broken: set[KeyPath] = field(default_factory=set)
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """Return the 1-based line of ``path``, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def is_broken(self, path: KeyPath) -> bool:
        return any(path[:n] in self.broken for n in range(len(path) + 1))

    def problem(self, path: KeyPath, message: str, hint: str = "") -> None:
        """Note a problem at ``path``, unless one is known there."""
        if not self.is_broken(path):
            self.problems.append(Problem(message, self.file, self.line(path), hint))


def read_document(path: Path) -> Document:
    """Read the one YAML document in ``path``. Raises InvalidInput where nothing can be read at all."""
    return parse_document(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Return the text of a regular, small, UTF-8 file. Raises InvalidInput where it is none."""

    def refuse(message: str, hint: str = "", line: int = 0) -> InvalidInput:
        return InvalidInput([Problem(message, str(path), line, hint)])

    try:
        # O_NONBLOCK: opening a FIFO must not wait for its writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise refuse("not a regular file", "give the path of a YAML file")
            raw = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise refuse("a directory, not a file", "name the files in it, for example with DIR/*.yaml") from None
    except FileNotFoundError:
        raise refuse("no such file") from None
    except (OSError, ValueError) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refuse(f"cannot be read: {text}") from None
    if len(raw) > MAX_BYTES:
        raise refuse(f"larger than {MAX_BYTES // 1024} KiB", "a scenario or profile is a few KiB of YAML")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise refuse("not UTF-8 text", "save the file as UTF-8", line) from None
    if "\0" in text:
        raise refuse("contains a NUL byte", "a YAML file is text", text.count("\n", 0, text.index("\0")) + 1)
    return text


def parse_document(text: str, file: str) -> Document:
    """Parse ``text``. Raises InvalidInput with the one problem after which nothing can be read."""
    document = Document(file)
    try:
        _Builder(document).build(iter(YAML(typ="safe", pure=True).parse(text)))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(str(p) for p in (error.context, error.problem) if p)
        hint = next((hint for text, hint in _HINTS.items() if text in what), "")
        document.problems.append(Problem(f"not valid YAML: {what}", file, mark.line + 1 if mark else 1, hint))
        raise InvalidInput(document.problems) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = ord(text[error.position]) if error.position < len(text) else 0
        message = f"contains the character U+{code:04X}, which YAML does not allow"
        raise InvalidInput([Problem(message, file, line)]) from None
    except (YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError, AssertionError):
        # ruamel lets a few of its own slips through (an unknown \x escape, a %YAML line with no number)
        raise InvalidInput([*document.problems, Problem("not valid YAML", file, 1)]) from None
    if document.data is None and not document.problems:
        raise InvalidInput([Problem("the file is empty", file, 1, "`chaoskit new` writes one to start from")])
    return document


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not come yet."""

    value: dict[str | int, object] | list[object]
    path: KeyPath
    key: str | int | None = None
    has_key: bool = False
    ignored: bool = False  # stands where a key should be, or under a duplicate key


class _Builder:
    """Builds the plain values of one document from the parser's events, without recursion."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._stack: list[_Open] = []
        self._documents = 0

    def build(self, events: Iterator[Any]) -> None:
        for count, event in enumerate(events, 1):
            line = event.start_mark.line + 1
            if count > MAX_EVENTS:
                self._stop(f"more than {MAX_EVENTS} values", line)
            self._refuse_extras(event, line)
            match type(event).__name__:
                case "DocumentStartEvent":
                    self._documents += 1
                    if self._documents > 1:
                        self._stop(
                            "more than one document",
                            line,
                            "one file holds one scenario or profile: remove the `---`",
                        )
                case "MappingStartEvent" | "SequenceStartEvent":
                    self._begin({} if type(event).__name__.startswith("M") else [], line)
                case "MappingEndEvent" | "SequenceEndEvent":
                    self._stack.pop()
                case "ScalarEvent":
                    self._scalar(event, line)
                case "AliasEvent":
                    self._add(None, line, broken=True)

    def _stop(self, message: str, line: int, hint: str = "") -> None:
        self._document.problems.append(Problem(message, self._document.file, line, hint))
        raise InvalidInput(self._document.problems)

    def _note(self, message: str, line: int, hint: str = "") -> None:
        self._document.problems.append(Problem(message, self._document.file, line, hint))

    def _refuse_extras(self, event: Any, line: int) -> None:
        if anchor := getattr(event, "anchor", None):
            sign = "*" if type(event).__name__ == "AliasEvent" else "&"
            self._note(f"the anchor or alias {sign}{anchor} is not allowed here", line, "write the value out")
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._note(
                f"the tag {tag} is not allowed here", line, "remove it; quote the value to make it a text"
            )

    # ------------------------------------------------------------ values

    def _scalar(self, event: Any, line: int) -> None:
        text: str = event.value
        plain = event.implicit[0] and event.style is None
        value, wrong = _resolve(text) if plain else (text, "")
        top = self._stack[-1] if self._stack else None
        if plain and text == "<<" and top is not None and isinstance(top.value, dict) and not top.has_key:
            self._note("merge keys (<<) are not allowed here", line, "write the keys out")
            top.key, top.has_key, top.ignored = "<<", True, True
            return
        if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            wrong = "contains a character that no text may hold"
        if wrong:
            self._note(f"{_shown(text)} {wrong}", line, "put it in quotes to make it a text")
        self._add(value, line, broken=bool(wrong))

    def _begin(self, value: dict[str | int, object] | list[object], line: int) -> None:
        if len(self._stack) >= MAX_DEPTH:
            self._stop(f"nested deeper than {MAX_DEPTH} levels", line)
        path, ignored = self._add(value, line)
        self._stack.append(_Open(value, path, ignored=ignored))

    def _add(self, value: object, line: int, *, broken: bool = False) -> tuple[KeyPath, bool]:
        """Put ``value`` where it belongs; return its path and whether it is to be forgotten."""
        if not self._stack:
            self._document.data = value
            return self._settle((), line, broken), False
        top = self._stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
            return self._settle((*top.path, len(top.value) - 1), line, broken, top.ignored), top.ignored
        if not top.has_key:
            return self._key(top, value, line)
        path, key = (*top.path, "" if top.key is None else top.key), top.key
        ignored = key is None or top.ignored or (key == "<<" and key not in top.value)
        top.has_key, top.key = False, None
        if key == "<<" and ignored:
            top.ignored = False
            return path, True
        if key is None or key in top.value:
            return path, True
        top.value[key] = value
        return self._settle(path, line, broken, ignored), ignored

    def _key(self, top: _Open, value: object, line: int) -> tuple[KeyPath, bool]:
        top.has_key, top.key = True, None
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            self._note("a key must be a text or a whole number", line)
            return top.path, True
        if value in top.value and isinstance(top.value, dict):
            first = self._document.lines.get((*top.path, value), 0)
            self._note(f"duplicate key `{_plain(str(value))}`", line, f"it is already given on line {first}")
        else:
            self._settle((*top.path, value), line, False, top.ignored)
        top.key = value
        return (*top.path, value), False

    def _settle(self, path: KeyPath, line: int, broken: bool, ignored: bool = False) -> KeyPath:
        if not ignored:
            self._document.lines.setdefault(path, line)  # a key's line stays that of its value
            if broken:
                self._document.broken.add(path)
        return path


def _resolve(text: str) -> tuple[object, str]:
    """Return what a plain scalar means, and what is wrong with it or ''."""
    if text in _WORDS:
        return _WORDS[text], ""
    digits = text.lstrip("+-")
    if _INT.fullmatch(text):
        if len(digits) > 18:
            return 0, "is too large a number"
        if len(digits) > 1 and digits[0] == "0":
            return 0, "begins with 0, which readers understand differently"
        return int(text), ""
    if _FLOAT.fullmatch(text) and len(text) <= 40:
        number = float(text)
        return number, "" if abs(number) < 1e300 else "is too large a number"
    if _UNDERSCORED.fullmatch(text):
        return 0, "is a number with underscores, which readers understand differently"
    if _DATE.fullmatch(text):
        return "", "would be read as a date"
    if _OTHER_BASE.fullmatch(text):
        return 0, "is not a decimal number"
    if _NOT_FINITE.fullmatch(text):
        return 0.0, "is not a finite number"
    return text, ""


def _plain(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _shown(text: str) -> str:
    return repr(_plain(text))


def is_plain_text(text: str) -> bool:
    """True when ``text`` written without quotes would be read as this very text."""
    return _resolve(text) == (text, "")
