"""Where a path of a fault lies: ``{scratch}`` is the arm's own folder, ``{rank}`` the rank it is read in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from chaoskit.model import SCRATCH

_SCRATCH_VARIABLE: Final = "CHAOSKIT_SCRATCH"
_RANK: Final = (
    "{rank}"  # lets ranks on one machine have a folder each, as hosts have with a disk of their own
)


def entry(path: str, rank: int) -> Path:
    """Return ``path`` with its marks filled in; without ``{scratch}`` it is relative to the current folder.

    Raises RuntimeError where the path needs the arm's folder and the process was not told of one.
    """
    if SCRATCH in path:
        folder_of_arm = os.environ.get(_SCRATCH_VARIABLE)
        if not folder_of_arm:
            raise RuntimeError(f"{path}: {_SCRATCH_VARIABLE} is not set in this process")
        path = path.replace(SCRATCH, folder_of_arm)
    return Path(path.replace(_RANK, str(rank)))


def check_folder(path: str) -> None:
    """Raise ValueError unless ``path`` is a folder that a fault may take: absolute, or of the arm."""
    if not path.startswith((SCRATCH, "/")) or not path.strip("/"):
        raise ValueError(f"path must be a folder, absolute or beginning with {SCRATCH}, is {path!r}")


def folder(path: str, rank: int) -> str:
    """Return the folder that is meant, as the kernel calls it, and make it where it is not there."""
    found = entry(path, rank).resolve()
    found.mkdir(parents=True, exist_ok=True)
    return str(found)
