"""From the options of ``chaoskit run``, as typed, to a request; every problem is found before any is said."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from chaoskit.cli import outputs
from chaoskit.cli.option_values import Found, Library, did_you_mean
from chaoskit.cli.outputs import Outputs
from chaoskit.cli.reporting import Format, read_format
from chaoskit.cli.shared_options import SharedOptions, chosen_scenarios, read_shared
from chaoskit.model import Scenario
from chaoskit.request import RunRequest

REPEATS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class RunOptions(SharedOptions):
    """What the user typed. None: not given."""

    stop_at_first: bool = False
    arms: tuple[str, ...] = ()
    junit: str | None = None
    html: str | None = None
    markdown: str | None = None
    github: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done: the request, and how to report."""

    request: RunRequest
    form: Format
    outputs: Outputs = outputs.NONE


def read(options: RunOptions, library: Library) -> Asked:
    """Return what the options ask for. Raises InvalidInput with all that is wrong with them."""
    found = Found(library)
    scenarios = chosen_scenarios(options.selectors, options.keyword, found)
    arms = _arms(options.arms, scenarios, found)
    request = read_shared(options, scenarios, found, REPEATS_MAX)
    form, wrong = read_format(options.form)
    found.problems += wrong
    reports = outputs.read(options.html, options.markdown, options.junit, options.github)
    found.problems += reports.problems()
    found.raise_any()
    return Asked(dataclasses.replace(request, arms=arms, stop_at_first=options.stop_at_first), form, reports)


def _arms(names: tuple[str, ...], scenarios: tuple[Scenario, ...], found: Found) -> tuple[str, ...]:
    known = dict.fromkeys(arm.name for scenario in scenarios for arm in scenario.arms)
    for name in names:
        if known and name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            found.add(f"--arm {name!r}: no scenario chosen has an arm of that name", hint)
    return names
