"""What the installed torch contains, found without importing it: its version, its NCCL, and every name of a
variable that stands in its libraries and Python files.

That a name stands there proves nothing; that it stands nowhere does: nobody reads it. Compilers may build a
short text piece by piece, so a name counts as absent only if its first bytes are absent too. A search takes
seconds, so what it found is kept per build.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import mmap
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

PREFIXES: Final = ("TORCH_", "TORCHELASTIC_", "PYTORCH_", "GLOO_")
"""How the names begin that are searched for. NCCL's own variables are in a library that need not be there."""
_STEMS: Final = (b"PYTORCH_", b"TORCH_", b"TORCHELASTIC_", b"GLOO_", b"NCCL_")
_PIECE: Final = 16
"""The most that a compiler loads at once of a text that it builds in place."""
_SHORT_PIECE: Final = 8
_LONGEST: Final = 200
_PART: Final = re.compile(rb"[A-Z0-9_]*")
_KEPT: Final = 8


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed torch. ``version`` is '' where there is none, ``nccl`` where none is known."""

    folder: str
    version: str
    nccl: str = ""

    @property
    def has_nccl(self) -> bool:
        """True where the code of the NCCL groups is part of it: of a CPU build nothing can be said there."""
        return os.path.exists(os.path.join(self.folder, "lib", "libtorch_cuda.so"))

    def contains(self, name: str) -> bool:
        """Return whether ``name`` may stand in it; searches on the first call, for all names."""
        piece = name[: _PIECE if len(name) >= _PIECE else _SHORT_PIECE]
        return any(piece in token for token in self._tokens())

    def names(self, name: str) -> bool:
        """Return whether exactly ``name`` stands in it."""
        return name in self._tokens()

    def _tokens(self) -> frozenset[str]:
        if self.folder not in _FOUND:
            _FOUND[self.folder] = _kept_or_searched(Path(self.folder))
        return _FOUND[self.folder]


_FOUND: dict[str, frozenset[str]] = {}


def find() -> Installed:
    """Return the torch that this Python would import."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin:
        return Installed("", "")
    folder = os.path.dirname(spec.origin)
    return Installed(folder, _version_of(folder), _nccl_version())


def _version_of(folder: str) -> str:
    try:
        text = Path(folder, "version.py").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    match = re.search(r"__version__\s*=\s*['\"]([^'\"]{1,60})['\"]", text)
    return match[1] if match else ""


def _nccl_version() -> str:
    for name in ("nvidia-nccl-cu13", "nvidia-nccl-cu12"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ""


# ---------------------------------------------------------------- the search, and what is kept of it


def _kept_or_searched(folder: Path) -> frozenset[str]:
    libraries = sorted(folder.glob("lib/*.so*"))
    key = _key(folder, libraries)
    kept = _cache_folder() / f"{key}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        return frozenset(str(token) for token in json.loads(kept.read_text(encoding="ascii")))
    found = {token for library in libraries for token in _in_file(library)}
    found |= {token for file in folder.rglob("*.py") for token in _in_file(file)}
    with contextlib.suppress(OSError):
        _keep(kept, found)
    return frozenset(found)


def _key(folder: Path, libraries: list[Path]) -> str:
    """Name a build: its path, its version, and the sizes and times of its libraries."""
    told = [str(folder), _version_of(str(folder))]
    for library in libraries:
        with contextlib.suppress(OSError):
            stat = library.stat()
            told.append(f"{library.name} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(told).encode("utf-8", "replace")).hexdigest()[:32]


def _cache_folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if given.startswith("/") else Path(os.path.expanduser("~"), ".cache")
    return base / "chaoskit" / "torch-names"


def _keep(path: Path, found: set[str]) -> None:
    """Write what was found, whole or not at all; of old builds only the last few stay."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with open(handle, "w", encoding="ascii") as file:
            json.dump(sorted(found), file)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    older = sorted(path.parent.glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)[_KEPT:]
    for one in older:
        one.unlink(missing_ok=True)


def _in_file(path: Path) -> Iterator[str]:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from _in_bytes(data)
    except (OSError, ValueError):  # gone, no regular file, or empty
        return


def _in_bytes(data: mmap.mmap) -> Iterator[str]:
    for stem in _STEMS:
        at = data.find(stem)
        while at >= 0:
            match = _PART.match(data, at, at + _LONGEST)
            token = match[0] if match is not None else stem
            yield token.decode("ascii")
            at = data.find(stem, at + len(token))
