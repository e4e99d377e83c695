"""The checksums of parameters that ranks have kept in files of the arm's folder. May not compare anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from chaoskit.parameter_sums import FILE, READ_BYTES, Moment, moments


@dataclass(frozen=True, slots=True)
class _Kept:
    """What one rank has kept, read anew by each iteration, so that one file at a time is in memory."""

    path: Path

    def __iter__(self) -> Iterator[Moment]:
        try:
            body = _body(self.path)
        except OSError:
            return
        yield from moments(body)


def kept(*folders: Path) -> dict[int, Iterable[Moment]]:
    """Return what the ranks have kept in ``folders``, by slot. Nothing where there is no such file."""
    found: dict[int, Iterable[Moment]] = {}
    for folder in folders:
        for path in sorted(folder.glob(f"rank*/{FILE}")):
            number = path.parent.name.removeprefix("rank")
            if number.isascii() and number.isdecimal() and str(int(number)) == number:
                found[int(number)] = _Kept(path)
    return found


def _body(path: Path) -> bytes:
    """Return the bytes of a regular file, none of anything else. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        return file.read(READ_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
