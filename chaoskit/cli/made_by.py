"""Tells the runs that a command made for itself (``cost``, ``matrix``, ``claims``) from those that a user
asked for. Of the former the verdicts are no findings: the command has a report of its own.

Reads run.json, which may be damaged or foreign: then the run counts as the user's.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Final

RECORD: Final = "run.json"
_COST_REPORT, _MATRIX_REPORT, _MATRIX = "cost.json", "matrix.html", "matrix.json"
_MAKERS: Final = ("cost", "matrix", "claims")


def maker(run: Path) -> str:
    """Return the command that made this run for itself; '' for a run that a user asked for."""
    command, _ = _record(run)
    try:
        words = shlex.split(command)
    except ValueError:  # a quotation mark that was cut off, or is the user's
        words = command.split()
    if not words or not (words[0].startswith("chaoskit") or words[0] == "__main__.py"):
        return ""
    named = next((word for word in words[1:] if not word.startswith("-")), "")
    return named if named in _MAKERS else ""


def said_of(path: Path) -> str:
    """Return the line on a folder that is (in) a run or a matrix that a command made for itself; else ''."""
    place = Path(os.path.abspath(path))
    for folder in (place, *place.parents):
        if (folder / RECORD).is_file():
            made_by = maker(folder)
            return _line(path, "this run", made_by, _own_report(folder, made_by)) if made_by else ""
        if (folder / _MATRIX).is_file():
            return _line(path, "these runs", "matrix", str(folder / _MATRIX_REPORT))
    records = place.glob(f"runs/*/{RECORD}") if place.is_dir() else ()
    if any(maker(record.parent) == "matrix" for record in records):  # it was cut off before its report
        return _line(path, "these runs", "matrix", _MATRIX_REPORT)
    return ""


def _line(path: Path, what: str, made_by: str, report: str) -> str:
    was, its = ("was", "its") if what == "this run" else ("were", "their")
    return (
        f"{path}: {what} {was} made by `chaoskit {made_by}` for itself, the verdicts are no findings;"
        f" {its} own report is {report}"
    )


def _own_report(run: Path, made_by: str) -> str:
    if made_by == "claims":
        return "what it printed"
    if made_by == "matrix":
        found = run.parent.parent / _MATRIX_REPORT
        return str(found) if found.is_file() else _MATRIX_REPORT
    # The prices are in the run beside it, of the same command with the same seed.
    beside = sorted(run.parent.glob(f"*/{_COST_REPORT}"))
    found = next((one for one in beside if _record(one.parent) == _record(run)), Path(_COST_REPORT))
    return f"{found}, and the page that --html wrote"


def _record(run: Path) -> tuple[str, object]:
    """The command and the seed."""
    try:
        raw = json.loads((run / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return "", None
    command = raw.get("command") if isinstance(raw, dict) else None
    return (command, raw.get("seed")) if isinstance(command, str) else ("", None)
