"""What of a user's program can change what comes of a cell: its files, those of its arguments, packages.

Seen are all Python files below the script's folder, the files and folders that its arguments name, the
current folder and the versions of installed packages. Not seen: what it reads from anywhere else. Where there
is too much to read, or it cannot be known what is run, its cells are not kept, and that is said.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

from chaoskit.matrix import files
from chaoskit.model import Workload

FILES_MAX: Final = 2_000
BYTES_MAX: Final = 64 << 20
ENTRIES_MAX: Final = 50_000
"""Files of any kind that are looked at to find those."""
_PASSED_OVER: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
_OF_RUNS: Final = frozenset({"run.json", "asked.json"})
"""A folder with one of them is a run's or a matrix's: our own output."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A program as a digest; ``why_not``: why there is none, so that its cells cannot be kept."""

    digest: str = ""
    why_not: str = ""


class TooMuch(Exception):
    """There is more to read than is worth it. The text says of what."""


@dataclass(slots=True)
class Programs:
    """Looks at each program once: for one batch, in which files are taken to stay what they are."""

    _seen: dict[Workload, Seen] = field(default_factory=dict)

    def of(self, workload: Workload) -> Seen:
        if workload.is_built_in:
            return Seen()  # part of chaoskit's own code
        if workload not in self._seen:
            self._seen[workload] = _look(workload)
        return self._seen[workload]


def _look(workload: Workload) -> Seen:
    if workload.kind != "script":
        return Seen(why_not=f"it cannot be known which files a {workload.kind} runs")
    try:
        reading = _sources(workload)
        for named in _named_in(workload.args):
            reading.add_folder(named) if named.is_dir() else reading.add(named)
    except TooMuch as much:
        return Seen(why_not=str(much))
    except OSError as error:
        return Seen(why_not=f"{error.filename} cannot be read: {error.strerror}")
    return Seen(f"{reading.digest()} in {os.getcwd()} with {_packages()}")


def _sources(workload: Workload) -> Reading:
    reading = Reading()
    script = Path(workload.target)
    reading.add(script)
    reading.add_folder(script.parent, python_only=True)
    return reading


def sources(workload: Workload) -> str:
    """Return the digest of a script and of the Python files below its folder; '' where it cannot be known.

    A run may change files that its arguments name, but not these.
    """
    try:
        return _sources(workload).digest() if workload.kind == "script" else ""
    except (OSError, TooMuch):
        return ""


def _named_in(arguments: tuple[str, ...]) -> Iterator[Path]:
    """The files and folders that arguments name: ``data.txt``, ``--config=run.yaml``."""
    for argument in arguments:
        for text in dict.fromkeys((argument, argument.partition("=")[2])):
            if text and "\0" not in text and os.path.exists(text):
                yield Path(text)


class Reading:
    """Digests files up to a bound. Raises TooMuch beyond it, OSError for what cannot be read."""

    def __init__(self) -> None:
        self._found = hashlib.sha256()
        self._known: set[str] = set()
        self._bytes = self._entries = 0

    def add(self, path: Path) -> None:
        name = os.path.realpath(path)
        if name in self._known:
            return
        self._known.add(name)
        self._bytes += os.stat(name).st_size
        if len(self._known) > FILES_MAX or self._bytes > BYTES_MAX:
            limits = f"{FILES_MAX} files or {BYTES_MAX >> 20} MiB"
            raise TooMuch(f"its program and what that is given are more than {limits}")
        content = hashlib.sha256(files.read(Path(name))).hexdigest()
        self._found.update(os.fsencode(name) + b"\0" + content.encode() + b"\0")

    def add_folder(self, folder: Path, *, python_only: bool = False) -> None:
        for base, folders, names in os.walk(folder):
            self._entries += len(names) + len(folders)
            if self._entries > ENTRIES_MAX:
                raise TooMuch(f"there are more than {ENTRIES_MAX} files below {folder}")
            if _OF_RUNS & set(names) or "pyvenv.cfg" in names:
                folders.clear()
                continue
            folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in _PASSED_OVER)
            for name in sorted(names):
                path = Path(base, name)
                if path.is_file() and (not python_only or name.endswith(".py")):
                    self.add(path)

    def digest(self) -> str:
        return self._found.hexdigest()


@functools.cache
def _packages() -> str:
    """The digest of the names and versions of installed packages; not of their files."""
    found = sorted({(d.name, d.version) for d in metadata.distributions()}, key=str)
    return hashlib.sha256(repr(found).encode()).hexdigest()
