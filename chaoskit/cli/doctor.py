"""``chaoskit doctor``: what this machine can do, what will be skipped on it, and what would change that."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING

import click

from chaoskit.cli.reporting import guarded, read_format
from chaoskit.errors import ExitCode, InvalidInput
from chaoskit.reports.wording import plural

if TYPE_CHECKING:
    from chaoskit.capabilities import Capability
    from chaoskit.model import Scenario


@dataclass(frozen=True, slots=True)
class Skipped:
    """A scenario of the library that is skipped here, and the capabilities it misses."""

    scenario: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found. ``versions`` maps what matters to a run to its version, '' where there is none."""

    versions: tuple[tuple[str, str], ...]
    capabilities: tuple[Capability, ...]
    skipped: tuple[Skipped, ...]
    unreadable: str = ""  # why the library could not be read


@click.command("doctor")
@click.option(
    "--format", "form", default="text", show_default=True, metavar="text|json", help="What stdout gets."
)
def doctor(form: str) -> None:
    """Show what this machine can do, what will be skipped on it, and the flags that would change it.

    Nothing is changed, and a missing capability is no failure: the exit code is 0.
    """
    known_form, wrong = read_format(form)
    if wrong:
        raise InvalidInput(wrong)
    sys.exit(show(diagnose(), sys.stdout, json_format=known_form == "json"))


def diagnose() -> Diagnosis:
    """Try every capability, and hold the library against what was found."""
    from chaoskit import capabilities, rundir, scenario

    found = capabilities.everything()
    unreadable = ""
    library: Iterable[Scenario] = ()
    try:
        library = scenario.select(["all"])
    except InvalidInput as error:  # the table is worth showing without it
        unreadable = str(error)
    versions = (
        ("chaoskit", rundir.version("chaoskit")),
        ("torch", rundir.version("torch")),
        ("python", platform.python_version()),
        ("kernel", platform.release()),
    )
    return Diagnosis(versions, found, skipped(library, found), unreadable)


def skipped(library: Iterable[Scenario], found: Iterable[Capability]) -> tuple[Skipped, ...]:
    """Return the scenarios that miss something, in the library's order, on their own backend."""
    absent = {c.name for c in found if not c.available}
    said = []
    for scenario in library:
        needs = list(scenario.needs)
        needs += ["nccl"] if scenario.topology.backend == "nccl" else []
        missing = tuple(n for n in dict.fromkeys(needs) if n in absent)
        if missing:
            said.append(Skipped(scenario.name, missing))
    return tuple(said)


def show(diagnosis: Diagnosis, stream: IO[str], *, json_format: bool) -> ExitCode:
    """Print the diagnosis as a table or as one JSON object."""
    with guarded(stream):
        if json_format:
            stream.write(_json(diagnosis))
        else:
            _print(diagnosis, stream)
        stream.flush()
    return ExitCode.OK


def _json(diagnosis: Diagnosis) -> str:
    document = {
        "schema_version": 1,
        "versions": dict(diagnosis.versions),
        "capabilities": [asdict(c) for c in diagnosis.capabilities],
        "skipped": [{"scenario": s.scenario, "missing": list(s.missing)} for s in diagnosis.skipped],
    }
    return json.dumps(document, indent=2) + "\n"


def _print(diagnosis: Diagnosis, stream: IO[str]) -> None:
    from rich.text import Text

    from chaoskit.reports.console import Pen, console_for, print_wrapped

    console = console_for(stream)
    pen = Pen(console)
    print_wrapped(
        console, Text(", ".join(f"{k} {v or 'not installed'}" for k, v in diagnosis.versions)), 0, 2
    )
    width = max((len(c.name) for c in diagnosis.capabilities), default=0)
    for capability in diagnosis.capabilities:
        word, style = ("yes", "green") if capability.available else ("no ", "yellow")
        line = Text.assemble(
            (f"{word} ", style), f"{capability.name:<{width}}  ", pen.text(capability.detail)
        )
        print_wrapped(console, line, 0, 6)
        if capability.remedy:
            print_wrapped(console, Text(f"to have it: {pen.text(capability.remedy)}", style="dim"), 6, 8)
    console.print()
    if diagnosis.unreadable:
        print_wrapped(console, Text(f"the library cannot be read: {pen.text(diagnosis.unreadable)}"), 0, 2)
        return
    count = len(diagnosis.skipped)
    head = (
        f"{plural(count, 'scenario')} will be skipped here:" if count else "no scenario will be skipped here"
    )
    print_wrapped(console, Text(head), 0, 2)
    for one in diagnosis.skipped:
        print_wrapped(console, Text(f"{pen.name(one.scenario)}: no {pen.text(', '.join(one.missing))}"), 2, 4)
    nccl = next((c for c in diagnosis.capabilities if c.name == "nccl"), None)
    if nccl is not None and not nccl.available:
        print_wrapped(console, Text("with --backend nccl every scenario will be skipped here"), 0, 2)
