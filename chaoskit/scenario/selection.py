"""Finds the scenarios that are meant by names, files, ``tag:TAG`` and ``all``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Scenario
from chaoskit.scenario.listing import Listed, listing
from chaoskit.scenario.loading import load
from chaoskit.scenario.values import did_you_mean


def select(wanted: Sequence[str]) -> list[Scenario]:
    """Return the scenarios that ``wanted`` names, each once, in the order asked for; none named: all.

    A text with a ``/`` or ending in ``.yaml`` is a file. Only what is meant is loaded. Raises InvalidInput
    with a problem for each name that means nothing and each file that is wrong.
    """
    names = [w for w in wanted if not is_file(w)]
    library = listing() if names or not wanted else []
    files: list[Path] = []
    problems: list[Problem] = []
    for one in wanted or ["all"]:
        if is_file(one):
            files.append(Path(one))
            continue
        meant = [entry for entry in library if _is_meant(entry, one)]
        if not meant:
            problems.append(_unknown(one, library))
        files += [entry.file for entry in meant]
    try:
        found = load(_once(files))
    except InvalidInput as error:
        raise InvalidInput([*problems, *error.problems]) from None
    if problems:
        raise InvalidInput(problems)
    return found


def _once(files: Iterable[Path]) -> list[Path]:
    """Drop a file that is named twice, also by different paths to it."""
    found: dict[Path, Path] = {}
    for file in files:
        found.setdefault(_resolved(file), file)
    return list(found.values())


def _resolved(file: Path) -> Path:
    try:
        return file.resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links, a NUL in the name: for the reader to say
        return file


def is_file(text: str) -> bool:
    """Return whether ``text`` means a file rather than a name."""
    return "/" in text or text.endswith((".yaml", ".yml"))


def _is_meant(entry: Listed, wanted: str) -> bool:
    if wanted.startswith("tag:"):
        return wanted.removeprefix("tag:") in entry.tags
    return wanted in ("all", entry.name)


def _unknown(wanted: str, library: list[Listed]) -> Problem:
    if wanted.startswith("tag:"):
        tags = sorted({tag for entry in library for tag in entry.tags})
        hint = did_you_mean(wanted.removeprefix("tag:"), tags)
        return Problem(f"no scenario has the tag {wanted.removeprefix('tag:')!r}", hint=hint)
    if wanted == "all":
        return Problem("the library is empty", hint="give the path of a scenario file")
    hint = did_you_mean(wanted, [entry.name for entry in library])
    if not hint.startswith("did"):
        hint = "`chaoskit list` names them; a file is given with its path, as ./mine.yaml"
    return Problem(f"there is no scenario {wanted!r}", hint=hint)
