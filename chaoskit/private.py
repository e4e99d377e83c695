"""Files and folders of a run: their owner's alone, whatever the umask says. Standard library only."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Final, Literal, TextIO

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def opener(path: str, flags: int) -> int:
    """For ``open(..., opener=private.opener)``: a new file is readable and writable by its owner alone."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def open_text(path: Path, mode: Literal["w", "a", "x"] = "w") -> TextIO:
    """Open ``path`` to write text. Raises OSError."""
    return open(path, mode, encoding="utf-8", opener=opener)


def write(path: Path, text: str) -> None:
    """Write ``text`` into ``path``, which is made or overwritten. Raises OSError."""
    with open_text(path) as file:
        file.write(text)


def folder(path: Path) -> Path:
    """Make the folder, and those above it that are missing, and return it. Raises OSError."""
    missing = [path, *itertools.takewhile(lambda above: not above.exists(), path.parents)]
    for one in reversed(missing):
        one.mkdir(exist_ok=True, mode=FOLDER_MODE)
    return path


def close_to_others(path: Path) -> None:
    """Take from others what they may do with a file or folder of ours, if they may do anything."""
    mode = path.stat(follow_symlinks=False).st_mode
    if mode & 0o077 and not path.is_symlink():
        path.chmod(mode & 0o7700)
