"""The library at a glance: the files, and their top-level keys, read without a YAML parser.

A full parse of the library costs half a second and pydantic's import as much again; ``chaoskit list``
has 0.15 s. So the few keys that a listing shows are read line by line, from the files themselves: there
is no index that could be stale. What is not plainly on one line makes the reader give up, and the
caller parses the file in full. Stdlib only.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import chaoskit

FAMILIES = (
    "process", "memory", "init", "collective", "data", "filesystem", "script", "preemption", "network",
    "gpu", "healthy",
)  # fmt: skip
"""The order of the library's families."""
PROFILES = "profiles"
"""The folder in a family's for profiles that its scenarios name."""
FIRST = "rank-killed-mid-all-reduce"
"""The scenario that stands first in its family."""
BACKENDS = ("gloo", "nccl")

_KEY = re.compile(r"([a-z_]+):(?:[ ]+(.*?))?[ ]*(?:[ ]#.*)?")
_PLAIN = re.compile(r"[A-Za-z(][^#\[\]{}&*!|>\"%@`]*")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_SPECIAL = {"null", "true", "false", "yes", "no"}


@dataclass(frozen=True, slots=True)
class Listed:
    """What a listing says of a scenario."""

    name: str
    family: str
    tags: tuple[str, ...]
    summary: str
    requires: tuple[str, ...]
    backends: tuple[str, ...]
    file: Path


def library_root() -> Path:
    """Return the folder of the library: inside an installed package, or beside the package in a checkout."""
    package = Path(chaoskit.__file__).parent
    shipped = package / "_library"
    return shipped if shipped.is_dir() else package.parent / "scenarios"


def library_files() -> list[Path]:
    """Return the files of the library in the order of their families; profiles beside them are none."""
    found = []
    for folder, folders, names in os.walk(library_root()):
        folders[:] = [name for name in folders if name != PROFILES]
        found += [Path(folder, name) for name in names if name.endswith((".yaml", ".yml"))]
    return sorted(found, key=lambda f: rank_of(f.parent.name, f.stem))


def rank_of(family: str, name: str) -> tuple[int, str, bool, str]:
    """Return the sorting key of a scenario."""
    place = FAMILIES.index(family) if family in FAMILIES else len(FAMILIES)
    return (place, family, name != FIRST, name)


def in_library(file: str) -> bool:
    """Return whether ``file`` is one of the library's."""
    return bool(file) and Path(file).absolute().is_relative_to(library_root().absolute())


def glance(file: Path) -> Listed | None:
    """Return what the lines of ``file`` plainly say, or None where it takes a YAML parser to know."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    found = _top_level(lines)
    if found is None:
        return None
    name, summary = _plain(found.get("name")), _plain(found.get("summary"))
    family = _plain(found.get("family", "custom"))
    tags, requires = _words(found.get("tags", "[]")), _words(found.get("requires", "[]"))
    backends = _words(found.get("backends", f"[{', '.join(BACKENDS)}]"))
    if None in (name, summary, family) or tags is None or requires is None or backends is None:
        return None
    return Listed(str(name), str(family), tags, str(summary), requires, backends, file)


def _top_level(lines: list[str]) -> dict[str, str] | None:
    """Return the keys at the margin with the text after them."""
    found: dict[str, str] = {}
    last = ""
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] in " \t-":
            if last in ("name", "summary", "family", "tags", "requires", "backends"):
                return None  # the value goes on below
            continue
        match = _KEY.fullmatch(line)
        if match is None or match[1] in found:
            return None
        last = match[1]
        found[last] = match[2] or ""
    return found


def _plain(text: str | None) -> str | None:
    """Return a value that needs no quotes, or that has plain double ones."""
    if text is None:
        return None
    if len(text) > 2 and text[0] == text[-1] == '"' and not set(text[1:-1]) & set('"\\'):
        return text[1:-1]
    simple = _PLAIN.fullmatch(text) and ": " not in text and not text.endswith(":")
    return text if simple and text.lower() not in _SPECIAL else None


def _words(text: str) -> tuple[str, ...] | None:
    """Return the words of ``[a, b]``."""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    words = [word.strip() for word in text[1:-1].split(",")] if text[1:-1].strip() else []
    plain = all(_WORD.fullmatch(word) and word.lower() not in _SPECIAL for word in words)
    return tuple(words) if plain else None


def listing() -> list[Listed]:
    """Return the library in its order. Parses a file in full only where a glance is not enough."""
    found = [glance(file) or _parsed(file) for file in library_files()]
    return sorted(found, key=lambda entry: rank_of(entry.family, entry.name))


def _parsed(file: Path) -> Listed:
    from chaoskit.scenario.loading import load

    (scenario,) = load([file])
    return Listed(
        scenario.name,
        scenario.family,
        scenario.tags,
        scenario.summary,
        scenario.requires,
        scenario.backends,
        file,
    )
