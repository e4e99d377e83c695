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
from typing import Final, Self

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


Stamps = frozenset[tuple[str, int, int, int, int]]
"""Of each file its name, inode, size, mtime and ctime. What is changed and put back has another ctime."""


@dataclass(frozen=True, slots=True)
class _Look:
    """All files of a program. They were stamped before they were read: what is changed later is noticed."""

    sources: Stamps
    whole: Reading

    @classmethod
    def at(cls, workload: Workload) -> Self:
        """Raises TooMuch and OSError."""
        reading = _sources(workload)
        sources = reading.stamps
        for named in _named_in(workload.args):
            reading.add_folder(named) if named.is_dir() else reading.add(named)
        return cls(sources, reading)


@dataclass(slots=True)
class Programs:
    """Looks at each program once: for one batch, whose cells have one key as long as it is unchanged."""

    _seen: dict[Workload, Seen] = field(default_factory=dict)
    _looks: dict[Workload, tuple[_Look, str]] = field(default_factory=dict)
    _edited: set[Workload] = field(default_factory=set)

    def of(self, workload: Workload) -> Seen:
        if workload.is_built_in:
            return Seen()  # part of chaoskit's own code
        if workload not in self._seen:
            self._seen[workload] = self._look(workload)
        return self._seen[workload]

    def _look(self, workload: Workload) -> Seen:
        if workload.kind != "script":
            return Seen(why_not=f"it cannot be known which files a {workload.kind} runs")
        try:
            look = _Look.at(workload)
            digest = look.whole.digest()
        except TooMuch as much:
            return Seen(why_not=str(much))
        except OSError as error:
            return Seen(why_not=f"{error.filename} cannot be read: {error.strerror}")
        self._looks[workload] = look, digest
        return Seen(f"{digest} in {os.getcwd()} with {_packages()}")

    def unchanged(self, workload: Workload) -> bool:
        """Return whether what was run until now was the program that ``of`` saw.

        Its own files must not have been touched since. Those that its arguments name may be written anew by
        its runs: they must be equal.
        """
        if workload not in self._looks:
            return True
        first, digest = self._looks[workload]
        try:
            now = _Look.at(workload)
            if now.sources != first.sources:
                self._edited.add(workload)
            if workload in self._edited:
                return False
            return now.whole.stamps == first.whole.stamps or now.whole.digest() == digest
        except (OSError, TooMuch):
            return False


def _sources(workload: Workload) -> Reading:
    reading = Reading()
    script = Path(workload.target)
    for folder in script.absolute().parents:
        reading.add_link(folder)
    reading.add(script)
    reading.add_folder(script.parent, python_only=True)
    return reading


def stamps(workload: Workload) -> Stamps | None:
    """Return those of a script and of the Python files below its folder; None where they cannot be had.

    A run may change files that its arguments name, but not these.
    """
    try:
        return _sources(workload).stamps if workload.kind == "script" else None
    except (OSError, TooMuch):
        return None


def _named_in(arguments: tuple[str, ...]) -> Iterator[Path]:
    """The files and folders that arguments name: ``data.txt``, ``--config=run.yaml``."""
    for argument in arguments:
        for text in dict.fromkeys((argument, argument.partition("=")[2])):
            if text and "\0" not in text and os.path.exists(text):
                yield Path(text)


class Reading:
    """Finds files up to a bound. Raises TooMuch beyond it, OSError for what cannot be read."""

    def __init__(self) -> None:
        self._files: dict[str, os.stat_result] = {}
        self._links: dict[str, os.stat_result] = {}
        self._bytes = self._entries = 0

    def add(self, path: Path) -> None:
        self.add_link(path)
        name = os.path.realpath(path)
        if name in self._files:
            return
        self._files[name] = found = os.stat(name)
        self._bytes += found.st_size
        if len(self._files) > FILES_MAX or self._bytes > BYTES_MAX:
            limits = f"{FILES_MAX} files or {BYTES_MAX >> 20} MiB"
            raise TooMuch(f"its program and what that is given are more than {limits}")

    def add_link(self, path: Path) -> None:
        """Stamp ``path`` where it is a symbolic link: it may be made to lead elsewhere, and back."""
        if path.is_symlink():
            self._links[str(path)] = os.lstat(path)

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
                if (not python_only or name.endswith(".py")) and path.is_file():
                    self.add(path)

    @property
    def stamps(self) -> Stamps:
        found = (*self._files.items(), *self._links.items())
        return frozenset((name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in found)

    def digest(self) -> str:
        """Read all that was added, now."""
        found = hashlib.sha256()
        for name in self._files:
            content = hashlib.sha256(files.read(Path(name))).hexdigest()
            found.update(os.fsencode(name) + b"\0" + content.encode() + b"\0")
        return found.hexdigest()


@functools.cache
def _packages() -> str:
    """The digest of the names and versions of installed packages; not of their files."""
    found = sorted({(d.name, d.version) for d in metadata.distributions()}, key=str)
    return hashlib.sha256(repr(found).encode()).hexdigest()
