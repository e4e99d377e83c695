"""The folder in which multiprocessing of an arm's ranks keeps sockets while they run.

A rank that is killed leaves it behind, so each arm has one of its own. To a launcher of the user's and to all
that it starts, it is the whole folder for temporary files (TMPDIR): torchrun and its ranks leave some there,
too. Whoever is left removes it: the warden at its end, the runner when the arm is closed, the server when all
is over. It is in the folder for temporary files, or in /tmp where the path of that is long: the path of a
socket may have 108 bytes only.
"""

from __future__ import annotations

import getpass
import glob
import os
import re
import shutil
import tempfile
from secrets import token_hex
from typing import Final

from chaoskit.launchers.launch import ArmLaunch

_PREFIX: Final = "chaoskit-{}-"
"""With the server's pid: what its arms have left is known by it."""
_SHORT: Final = "/tmp"  # noqa: S108 - the folder in it has a random name and is made for this user alone
_BASE_BYTES: Final = 45
"""Leaves 62 of a socket's 107: 26 for the folder, 36 for /pymp-XXXXXXXX/listener-XXXXXXXX or what torch's
manager of shared memory makes."""


def name(server: int) -> str:
    """Return the path for a new arm of the server with that pid. Nothing is made."""
    return os.path.join(_base(), _PREFIX.format(server) + token_hex(4))


def _base() -> str:
    usual = tempfile.gettempdir()
    if len(os.fsencode(usual)) > _BASE_BYTES and os.access(_SHORT, os.W_OK | os.X_OK):
        return _SHORT
    return usual


def use(folder: str) -> None:
    """Make it, for the multiprocessing of this process and of all that it forks."""
    from multiprocessing.process import current_process

    os.mkdir(folder, 0o700)
    current_process()._config["tempdir"] = folder  # type: ignore[attr-defined]


def environment_of(launch: ArmLaunch) -> dict[str, str]:
    """Return what the user's launcher is started with: the arm's folder is its one for temporary files."""
    environment = dict(launch.environment)
    if launch.temporary:
        environment["TMPDIR"] = launch.temporary
        # What torch.compile keeps from run to run stays where it is looked for without chaoskit.
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
        kept = os.path.join(tempfile.gettempdir(), f"torchinductor_{user}")
        environment.setdefault("TORCHINDUCTOR_CACHE_DIR", kept)
    return environment


def remove(folder: str) -> None:
    """Remove it with all that is in it; it may be gone already."""
    shutil.rmtree(folder, ignore_errors=True)


def remove_all(server: int) -> None:
    """Remove those of all arms of that server: none of them runs any more."""
    for folder in glob.glob(os.path.join(glob.escape(_base()), _PREFIX.format(server) + "*")):
        remove(folder)
