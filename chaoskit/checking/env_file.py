"""Files of environment variables: ``NAME=VALUE`` lines as Docker, systemd and shells read them.

Understood: empty lines, comments, ``set -a``, ``export`` before one or several variables, a value in quotes,
a comment after a value that is in no quotes. Nothing is expanded or run: ``$OTHER`` stays what it is, and the
setting says that it is not known.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import Final

from chaoskit.checking.case import Setting
from chaoskit.errors import InvalidInput, Problem

MAX_BYTES: Final = 256 * 1024
_LINE: Final = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)")
_PASSED_OVER: Final = re.compile(
    r"(?:set[ \t]+[-+](?:a|o[ \t]+allexport)|export(?:[ \t]+[A-Za-z_][A-Za-z0-9_]*)+)[ \t]*;?[ \t]*(?:#.*)?"
)
_EXPANDED: Final = re.compile(r"\$(?:[A-Za-z_0-9{(@*#?!$-])|`")
_PIECES: Final = r"(?!#)(?:'[^']*'|\"[^\"]*\"|[^\s'\";])*"
_EXPORTED: Final = re.compile(rf"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>{_PIECES})(?=\s|;|$)\s*")
_PIECE: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^'\"]+)")
_QUOTED: Final = re.compile(r"(?P<quote>[\"'])(?P<inner>(?:(?!(?P=quote)).)*)(?P=quote)\s*(?:#.*)?")
_COMMENT: Final = re.compile(r"\s#.*")


def read_env_file(path: str) -> tuple[tuple[Setting, ...], tuple[Problem, ...]]:
    """Return the settings of a file, and a problem for each line that is none. Raises InvalidInput where
    nothing can be read at all."""
    settings: list[Setting] = []
    problems: list[Problem] = []
    for number, line in _lines(_text(path)):
        if several := _exported(line, number):
            settings += several
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            problems.append(Problem("this line is no NAME=VALUE", path, number, "one variable a line"))
        else:
            value, literal = _value(match["value"])
            settings.append(Setting(match["name"], value, number, not literal and has_expansion(value)))
    if problems and not settings:
        raise InvalidInput(problems[:10])
    return tuple(settings), tuple(problems)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if line and not line.startswith("#") and _PASSED_OVER.fullmatch(line) is None:
            yield number, line


def has_expansion(value: str) -> bool:
    """Return whether a shell would put something else in the place of a part of ``value``."""
    return _EXPANDED.search(value) is not None


def _exported(line: str, number: int) -> list[Setting]:
    """Return the variables of an ``export`` of several; empty for any other line, which is read as one."""
    head, _, rest = line.partition(" ")
    found: list[Setting] = []
    at, rest = 0, rest.strip()
    while head == "export" and at < len(rest) and rest[at] not in "#;":
        match = _EXPORTED.match(rest, at)
        if match is None:
            return []
        pieces = [piece.groups(default="") for piece in _PIECE.finditer(match["value"])]
        expands = any(has_expansion(double + bare) for _, double, bare in pieces)
        found.append(Setting(match["name"], "".join(map("".join, pieces)), number, expands))
        at = match.end()
    return found if len(found) > 1 else []


def _value(text: str) -> tuple[str, bool]:
    """Return the value, and whether a shell takes it to the letter."""
    text = text.strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        return quoted["inner"], quoted["quote"] == "'"
    return _COMMENT.sub("", text).rstrip(), False


def _text(path: str) -> str:
    """Return the text of a regular, small, UTF-8 file."""
    try:
        # O_NONBLOCK: opening a FIFO must not wait for its writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidInput([Problem("not a regular file", path)])
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InvalidInput([Problem("no such file", path)]) from None
    except (OSError, ValueError) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidInput([Problem(f"cannot be read: {text}", path)]) from None
    if len(raw) > MAX_BYTES:
        raise InvalidInput([Problem(f"larger than {MAX_BYTES // 1024} KiB", path)])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput([Problem("not UTF-8 text", path)]) from None
