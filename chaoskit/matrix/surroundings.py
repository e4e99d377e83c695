"""What the ranks of every cell have around them: variables that they inherit, and plug-ins of chaoskit."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import secrets
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from chaoskit.launchers.forkserver import inherited
from chaoskit.matrix.program import Reading, TooMuch

_OF_A_SESSION: Final = re.compile(
    r"_|PWD|OLDPWD|SHLVL|COLUMNS|LINES|TERM|TERM_.*|COLORTERM|NO_COLOR|WINDOWID|TMUX|TMUX_PANE|STY"
    r"|SSH_.*|XDG_SESSION_.*|DBUS_.*|DISPLAY|WAYLAND_DISPLAY|GPG_.*|LS_COLORS|PS1|HIST.*|PAGER|EDITOR|VISUAL"
    r"|MAKE.*|MFLAGS|PYTEST_.*|CHAOSKIT_.*"
)
"""What differs from terminal to terminal and changes no rank. The current folder counts with a program."""


def environment(given: Mapping[str, str]) -> str:
    """Return the digest of what the ranks inherit of ``given``."""
    told = sorted(one for one in inherited(given).items() if not _OF_A_SESSION.fullmatch(one[0]))
    return hashlib.sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()


@functools.cache
def plugins() -> str:
    """Return the digest of the packages that add guards, faults or workloads; '' where there are none."""
    told = []
    groups = [name for name in metadata.entry_points().groups if name.partition(".")[0] == "chaoskit"]
    for point in (point for name in groups for point in metadata.entry_points(group=name)):
        version = point.dist.version if point.dist is not None else ""
        told.append((point.group, point.name, point.value, version, _files(point.module.partition(".")[0])))
    return hashlib.sha256(repr(sorted(told)).encode()).hexdigest() if told else ""


def _files(package: str) -> str:
    """The digest of a package's Python files. What cannot be read is never the same."""
    try:
        spec = importlib.util.find_spec(package)
        reading = Reading()
        for folder in (spec and spec.submodule_search_locations) or ():
            reading.add_folder(Path(folder), python_only=True)
        if spec is not None and spec.has_location and spec.origin is not None:
            reading.add(Path(spec.origin))
        return reading.digest()
    except (OSError, TooMuch, ValueError, ImportError):
        return secrets.token_hex()


def conditions() -> dict[str, str]:
    """Return both, by how people call them."""
    return {
        "the environment": environment(os.environ),
        "plug-ins": plugins(),
    }
