"""Annotations for a GitHub job: lines that its runner takes for commands and shows beside the code.

What is not held is an error, what is inconclusive a warning; all that is skipped is one notice. GitHub shows
ten of each a step, so that many are written, and the last of them counts the rest.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit.model import Result, ScenarioResult, Status, Verdict
from chaoskit.reports.judged import is_watch, result_in_words
from chaoskit.reports.repeats import by_arm
from chaoskit.reports.wording import LONGEST_NAME, facts_of, plural, safe, words

MOST = 10
"""Annotations of one level that GitHub shows of a step."""
_LEVEL = {Result.NOT_HELD: "error", Result.INCONCLUSIVE: "warning"}
_SAID = ("culprit", "reason", "evidence", "operation", "where", "suffered from it", "rerun")
_LONGEST_FACT = 400
_LONGEST_MESSAGE = 3_000
_LINE = re.compile(r"(?P<file>.+):(?P<line>[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class _Note:
    title: str
    message: str
    file: str = ""
    line: int = 0


def render(results: Iterable[ScenarioResult], here: Path, names: Sequence[str] = ()) -> str:
    """Return the lines, each an annotation. Files are named as seen from ``here``, the checkout.

    ``names``: of each result, where it is not its own (a watched program).
    """
    results = list(results)
    named = list(zip(results, [*names, *(r.name for r in results[len(names) :])], strict=True))
    lines: list[str] = []
    for result, level in _LEVEL.items():
        notes = [n for r, name in named if r.result is result for n in _notes(r, here, name)]
        lines += _written(level, notes, words(result))
    skipped = [r for r in results if r.result is Result.SKIPPED]
    if skipped:
        reasons = dict.fromkeys(safe(r.reason, longest=_LONGEST_FACT) for r in skipped if r.reason)
        title = f"chaoskit: {plural(len(skipped), 'scenario')} skipped"
        lines.append(_line("notice", _Note(title, "\n".join(list(reasons)[:MOST]) or title)))
    return "".join(f"{line}\n" for line in lines)


def _written(level: str, notes: list[_Note], what: str) -> Iterator[str]:
    shown = notes if len(notes) <= MOST else notes[: MOST - 1]
    for note in shown:
        yield _line(level, note)
    if left := len(notes) - len(shown):
        said = f"{left} more {'is' if left == 1 else 'are'} {what}; GitHub shows {MOST} of each kind"
        yield _line(level, _Note(f"chaoskit: {left} more {what}", said))


def _notes(result: ScenarioResult, here: Path, called: str) -> Iterator[_Note]:
    """Yield a note for each arm that is not as it should be; one for the scenario, where none is."""
    said = result_in_words(result)
    groups = [g for arm in by_arm(result.verdicts) for g in arm.groups if g.first.status is not Status.PASS]
    for verdict in (same.first for same in groups):
        name = called if is_watch(result) else f"{called}/{verdict.arm}"
        yield _Note(f"{name}: {said}", _message(verdict), *_place(verdict, here))
    if not groups:
        yield _Note(f"{called}: {said}", safe(result.reason or said, longest=_LONGEST_FACT))


def _message(verdict: Verdict) -> str:
    said = [
        f"{label}: {safe(value, longest=_LONGEST_FACT)}"
        for label, value in facts_of(verdict)
        if label in _SAID or label.startswith("cause")
    ]
    return "\n".join(said)[:_LONGEST_MESSAGE]


def _place(verdict: Verdict, here: Path) -> tuple[str, int]:
    """The user's line, where it lies in the checkout; else the scenario's file; else nowhere."""
    if (match := _LINE.fullmatch(verdict.where)) and (inside := _inside(match["file"], here)):
        return inside, int(match["line"])
    return _inside(_scenario_file(verdict), here), 0


def _scenario_file(verdict: Verdict) -> str:
    """The command that runs an arm again names the file of a scenario that is not of the library."""
    try:
        named = shlex.split(verdict.rerun)[2:3]
    except ValueError:
        return ""
    return named[0] if named and named[0].endswith((".yaml", ".yml")) else ""


def _inside(file: str, here: Path) -> str:
    """Return ``file`` as seen from ``here``; '' where it lies outside."""
    if not file or "\0" in file:
        return ""
    root = os.path.realpath(here)
    inside = os.path.relpath(os.path.realpath(os.path.join(root, file)), root)
    return "" if inside in (".", "..") or inside.startswith("../") else inside


def annotation(level: str, title: str, message: str, file: str = "", line: int = 0) -> str:
    """Return one annotation (error, warning or notice). ``file`` is as seen from the checkout."""
    return _line(level, _Note(title, message, file, line))


def _line(level: str, note: _Note) -> str:
    properties = {"file": safe(note.file), "line": str(note.line) if note.line else ""}
    properties["title"] = safe(note.title, longest=LONGEST_NAME)
    said = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{level} {said}::{_data(note.message)}"


def _data(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
