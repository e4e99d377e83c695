"""Files of environment variables: ``NAME=VALUE`` lines as Docker, systemd and shells read them.

Understood: empty lines, comments, ``export`` before a name, a value in quotes, a comment after a value
that is in no quotes. Nothing is expanded or run: ``$OTHER`` stays what it is.
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
_QUOTED: Final = re.compile(r"(?P<quote>[\"'])(?P<inner>(?:(?!(?P=quote)).)*)(?P=quote)\s*(?:#.*)?")
_COMMENT: Final = re.compile(r"\s#.*")


def read_env_file(path: str) -> tuple[tuple[Setting, ...], tuple[Problem, ...]]:
    """Return the settings of a file, and a problem for each line that is none. Raises InvalidInput where
    nothing can be read at all."""
    settings: list[Setting] = []
    problems: list[Problem] = []
    for number, line in _lines(_text(path)):
        match = _LINE.fullmatch(line)
        if match is None:
            problems.append(Problem("this line is no NAME=VALUE", path, number, "one variable a line"))
        else:
            settings.append(Setting(match["name"], _value(match["value"]), number))
    if problems and not settings:
        raise InvalidInput(problems[:10])
    return tuple(settings), tuple(problems)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if line and not line.startswith("#"):
            yield number, line


def _value(text: str) -> str:
    text = text.strip()
    quoted = _QUOTED.fullmatch(text)
    return quoted["inner"] if quoted is not None else _COMMENT.sub("", text).rstrip()


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
