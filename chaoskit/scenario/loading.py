"""Loads scenario files; every problem in all of them is raised at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Scenario
from chaoskit.scenario.checks import check_draft
from chaoskit.scenario.listing import library_files, rank_of
from chaoskit.scenario.reader import read_scenario
from chaoskit.scenario.source import Document, parse_document, read_document


def load(paths: Iterable[Path | str]) -> list[Scenario]:
    """Return the scenarios in ``paths``, in order. Raises InvalidInput with every problem of every file."""
    scenarios: list[Scenario] = []
    problems: list[Problem] = []
    for path in dict.fromkeys(Path(p) for p in paths):
        try:
            scenarios.append(_scenario(read_document(path)))
        except InvalidInput as error:
            problems += error.problems
    problems += _same_names(scenarios)
    if problems:
        raise InvalidInput(problems)
    return scenarios


def parse(text: str, file: str = "") -> Scenario:
    """Return the scenario that ``text`` says. Raises InvalidInput with every problem."""
    return _scenario(parse_document(text, file))


def load_library() -> list[Scenario]:
    """Return the scenarios that come with chaoskit, in the order of their families."""
    return sorted(load(library_files()), key=lambda s: rank_of(s.family, s.name))


def _scenario(document: Document) -> Scenario:
    draft = read_scenario(document)
    problems = [*document.problems, *check_draft(draft, document.line)]
    if problems:
        raise InvalidInput(sorted(dict.fromkeys(problems), key=lambda p: (p.file, p.line)))
    return draft.scenario


def _same_names(scenarios: Sequence[Scenario]) -> list[Problem]:
    first: dict[str, str] = {}
    problems = []
    for scenario in scenarios:
        other = first.setdefault(scenario.name, scenario.file)
        if other != scenario.file:
            line = next((n for n, text in enumerate(_lines(scenario.file), 1) if text.startswith("name:")), 1)
            message = f"the name {scenario.name} is already taken by {other}"
            problems.append(Problem(message, scenario.file, line, "give one of them another name"))
    return problems


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
