"""``chaoskit validate``: checks files and runs nothing."""

from __future__ import annotations

from pathlib import Path

import click

from chaoskit.cli.printing import say
from chaoskit.errors import InvalidInput, Problem, usage


@click.command("validate")
@click.argument("paths", nargs=-1, metavar="PATH...")
def validate(paths: tuple[str, ...]) -> None:
    """Check scenario and profile files: every problem at once, with its line and a hint."""
    if not paths:
        raise usage("no file given", "give one or more, as scenarios/*/*.yaml")
    problems: list[Problem] = []
    scenarios = [p for p in paths if not _is_profile(Path(p))]
    profiles = [p for p in paths if p not in scenarios]
    problems += _problems_of_scenarios(scenarios)
    for path in profiles:
        problems += _problems_of_profile(path)
    if problems:
        raise InvalidInput(problems)
    for path in paths:
        say(f"{path}: good")


def _is_profile(path: Path) -> bool:
    """A file with guards or env and without arms is a profile; what cannot be read counts as a scenario."""
    from chaoskit.scenario.source import read_document

    try:
        data = read_document(path).data
    except InvalidInput:
        return False
    return isinstance(data, dict) and bool({"guards", "env"} & data.keys()) and "arms" not in data


def _problems_of_scenarios(paths: list[str]) -> tuple[Problem, ...]:
    from chaoskit.scenario import load

    try:
        load(paths)
    except InvalidInput as error:
        return error.problems
    return ()


def _problems_of_profile(path: str) -> tuple[Problem, ...]:
    from chaoskit.scenario import load_profile

    try:
        load_profile(Path(path))
    except InvalidInput as error:
        return error.problems
    return ()
