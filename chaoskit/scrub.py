"""Takes secrets out of what others have written into an arm's folder, and closes it to other users.

A rank, torch and the sources of evidence write there, too. What is theirs to name or to fill is not trusted:
a link is not followed, what is no plain file not opened.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from chaoskit import private
from chaoskit.redacting import Redactor

CLEAN: Final = frozenset({"plan.json", "history.jsonl", "verdict.json", "stdout.log", "stderr.log"})
"""Files that were written without secrets."""
_TEXT: Final = frozenset({".json", ".jsonl", ".txt", ".log"})
"""How the names of files end that hold text. The others are chaoskit's own, and no words of a program's."""
LARGEST_BYTES: Final = 64 << 20
"""A larger file is none that chaoskit asked for: it is removed if it cannot be searched."""


def scrub(arm_dir: Path, redactor: Redactor, not_in: str) -> None:
    """Go through all files of ``arm_dir``, but for the folder ``not_in``, which is the program's own."""
    for path in _files(arm_dir, not_in):
        with contextlib.suppress(OSError):
            private.close_to_others(path)
            if path.name not in CLEAN and path.suffix in _TEXT:
                _clean(path, redactor)


def _files(arm_dir: Path, not_in: str) -> Iterator[Path]:
    for folder, folders, files in os.walk(arm_dir):
        if folder == str(arm_dir) and not_in in folders:
            folders.remove(not_in)
        for name in folders:
            with contextlib.suppress(OSError):
                private.close_to_others(Path(folder, name))
        yield from (Path(folder, name) for name in files)


def _clean(path: Path, redactor: Redactor) -> None:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "r+b") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return
        if found.st_size > LARGEST_BYTES:
            path.unlink()
            return
        before = file.read()
        after = redactor.data(before)
        if after == before:
            return
        with contextlib.suppress(ValueError, RecursionError):  # a value may be a number's digits in JSON
            after = (json.dumps(redactor.json(json.loads(before)), indent=1) + "\n").encode()
        file.seek(0)
        file.write(after)
        file.truncate()
