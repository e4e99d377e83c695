"""The file a report goes to: found unusable before a run, written whole or not at all.

Knows nothing of what stands in the file.
"""

from __future__ import annotations

import gzip
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from chaoskit.errors import Problem


def problems(path: Path, option: str) -> list[Problem]:
    """Return why the report of ``option`` could not be written to ``path``; creates the folder."""
    try:
        if path.is_dir():
            hint = f"the file stands behind {option}, and what is asked about before it"
            return [Problem(f"is a folder, {option} needs a file", str(path), hint=hint)]
        if is_special(path):
            return [] if os.access(path, os.W_OK) else [Problem("cannot be written", str(path))]
        folder = _target(path).parent
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".chaoskit-"):
            return []
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = f"give {option} a path in a folder you may write to"
        return [Problem(f"cannot be written: {reason}", str(path), hint=hint)]


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """Write the file inside: a reader sees the old file or the new one, never a part. Raises OSError.

    A name that ends in ``.gz`` gets a compressed file.
    """
    if is_special(path):  # /dev/stdout, a pipe: nothing to replace
        with path.open("wb") as file:
            yield file
        return
    target = _target(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".chaoskit-", suffix=target.suffix)
    try:
        with os.fdopen(handle, "wb") as file:
            with _packed(file, target) as writer:
                yield writer
            file.flush()
            os.fchmod(file.fileno(), _mode(target))
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _packed(file: IO[bytes], target: Path) -> Iterator[IO[bytes]]:
    if target.suffix != ".gz":
        yield file
        return
    # mtime: the same report gives the same bytes. Level 6 is not worth its time for JSON.
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=3, mtime=0, filename="") as packed:
        yield packed  # type: ignore[misc]  # a binary stream to write to, whatever its class is called


def _target(path: Path) -> Path:
    """Return the file behind symbolic links: replacing the link would leave the file as it was."""
    return Path(os.path.realpath(path))


def is_special(path: Path) -> bool:
    """Return whether ``path`` is there and is no plain file: a pipe, a device."""
    return path.exists() and not path.is_file()


def _mode(target: Path) -> int:
    """Return the mode a plain open() would give; mkstemp's 0600 hides the report from a CI user."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
