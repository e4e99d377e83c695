"""The folder in which multiprocessing of an arm's ranks keeps sockets while they run.

A rank that is killed leaves it behind, so each arm has one of its own. Whoever is left removes it: the warden
at its end, the runner when the arm is closed, the server when all is over. It is in the folder for temporary
files, as the path of a socket may have 108 bytes only.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from secrets import token_hex
from typing import Final

_PREFIX: Final = "chaoskit-{}-"
"""With the server's pid: what its arms have left is known by it."""


def name(server: int) -> str:
    """Return the path for a new arm of the server with that pid. Nothing is made."""
    return os.path.join(tempfile.gettempdir(), _PREFIX.format(server) + token_hex(4))


def use(folder: str) -> None:
    """Make it, for the multiprocessing of this process and of all that it forks."""
    from multiprocessing.process import current_process

    os.mkdir(folder, 0o700)
    current_process()._config["tempdir"] = folder  # type: ignore[attr-defined]


def remove(folder: str) -> None:
    """Remove it with all that is in it; it may be gone already."""
    shutil.rmtree(folder, ignore_errors=True)


def remove_all(server: int) -> None:
    """Remove those of all arms of that server: none of them runs any more."""
    for folder in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), _PREFIX.format(server) + "*")):
        remove(folder)
