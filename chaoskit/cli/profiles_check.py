"""``chaoskit profiles check``: what is wrong with a profile or an environment, before anything runs."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from chaoskit.cli.printing import complain, say, say_json
from chaoskit.errors import ExitCode, InvalidInput, Problem

if TYPE_CHECKING:
    from chaoskit.checking import Finding, Subject, Target
    from chaoskit.model import Backend, Profile
    from chaoskit.reports.profile_checks import Checked


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What the user typed. None: not given."""

    files: tuple[str, ...] = ()
    environment: bool = False
    torch: str | None = None
    nccl: str | None = None
    backend: str | None = None
    launcher: str | None = None
    launcher_grace: str | None = None
    kill_wait: str | None = None
    strict: bool = False
    form: str = "text"
    github: bool = False


@click.command("check")
@click.argument("files", nargs=-1, metavar="FILE|NAME|-...")
@click.option("--environment", is_flag=True, help="Check the environment of this process (the same as -).")
@click.option("--torch", metavar="VERSION", help="For this torch (default: the installed one).")
@click.option(
    "--nccl", metavar="VERSION", help="For this NCCL (default: the one that is installed with torch)."
)
@click.option(
    "--backend", metavar="gloo|nccl|nccl-legacy|nccl2", help="For this backend (default: all of this torch)."
)
@click.option(
    "--launcher", metavar="torchrun|srun|mpirun|kubernetes|none", help="What starts the ranks in production."
)
@click.option(
    "--launcher-grace", metavar="DURATION", help="What your launcher gives between SIGTERM and SIGKILL."
)
@click.option(
    "--kill-wait",
    "--termination-grace",
    "kill_wait",
    metavar="DURATION",
    help="The same of your scheduler (Slurm: KillWait, Kubernetes: terminationGracePeriodSeconds).",
)
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
@click.option(
    "--format", "form", default="text", show_default=True, metavar="text|json", help="What stdout gets."
)
@click.option("--github", is_flag=True, help="Also print annotations for a GitHub job.")
def check(**typed: object) -> None:
    """Say what is wrong with profiles and environments before anything runs.

    FILE is a profile (its name, or a .yaml file), a file of NAME=VALUE lines, or - for the environment of
    this process. Found are misspelt and old names, values that are read as something else, settings that
    exclude or cancel each other, timeouts in the wrong order, and what has no effect on the torch, NCCL or
    backend that is meant. Exit codes: 0 no error, 1 an error (with --strict: or a warning), 64 a file cannot
    be read.

    \b
    chaoskit profiles check our-cluster.yaml --launcher srun --kill-wait 30s
    chaoskit profiles check train.env --torch 2.15 --backend nccl
    """
    options = CheckOptions(**typed)  # type: ignore[arg-type]  # click gives the fields by name
    target = _target(options)
    checked, unreadable = _checked(options, target)
    _tell(options, checked)
    if unreadable:
        raise InvalidInput(unreadable)
    if any(one.findings for one in checked) and _is_bad(checked, strict=options.strict):
        sys.exit(ExitCode.NOT_HELD)


def _target(options: CheckOptions) -> Target:
    """Read the options. Raises InvalidInput with all that is wrong with them."""
    from chaoskit.checking.target import BACKENDS, launchers, read_target
    from chaoskit.cli.option_values import Found, library

    found = Found(library())
    if not options.files and not options.environment:
        found.add("no file given", "give a profile, a file of NAME=VALUE lines, or - for this environment")
    found.one_of("--format", options.form, ("text", "json"))
    backend = found.one_of("--backend", options.backend, BACKENDS)
    launcher = found.one_of("--launcher", options.launcher, launchers())
    grace_s = found.duration("--launcher-grace", options.launcher_grace)
    wait_s = found.duration("--kill-wait", options.kill_wait)
    target = found.attempt(
        lambda: read_target(options.torch, options.nccl, backend, launcher, grace_s, wait_s)
    )
    found.raise_any()
    assert target is not None
    return target


def _checked(options: CheckOptions, target: Target) -> tuple[list[Checked], list[Problem]]:
    from chaoskit.checking import check as apply_rules
    from chaoskit.checking import read_subject
    from chaoskit.checking.reading import ENVIRONMENT
    from chaoskit.reports.profile_checks import Checked

    checked: list[Checked] = []
    unreadable: list[Problem] = []
    for name in dict.fromkeys([*options.files, *([ENVIRONMENT] if options.environment else [])]):
        try:
            subject, read = read_subject(name)
        except InvalidInput as error:
            unreadable += error.problems
            continue
        checked.append(Checked(subject, target, (*read, *apply_rules(subject, target))))
    return checked, unreadable


def _tell(options: CheckOptions, checked: list[Checked]) -> None:
    from chaoskit.reports import profile_checks

    if options.form == "json":
        say_json(profile_checks.as_json(checked))
    else:
        for one in checked:
            say(profile_checks.text(one))
    if options.github:
        for line in profile_checks.github(checked):
            (complain if options.form == "json" else say)(line)


def _is_bad(checked: list[Checked], *, strict: bool) -> bool:
    from chaoskit.checking.finding import Level

    bad = (Level.ERROR, Level.WARNING) if strict else (Level.ERROR,)
    return any(finding.level in bad for one in checked for finding in one.findings)


def in_one_line(profile: Profile, given: str, backend: Backend | None) -> str:
    """Return a line for who is about to run under ``profile``, which was given as ``given``; '' where there
    is neither an error nor a warning. It counts what the command in it prints."""
    from chaoskit.checking import subject_of

    return counted(subject_of(profile), (), f"profile {profile.name}", given, backend)


def counted(
    subject: Subject, read: tuple[Finding, ...], named: str, given: str, backend: Backend | None
) -> str:
    """Return the counts of a subject, and the command that prints the findings; '' where nothing weighs."""
    from chaoskit.checking import check as apply_rules
    from chaoskit.checking import read_target
    from chaoskit.checking.finding import Level
    from chaoskit.reports.wording import plural

    try:
        target = read_target(backend=backend)
    except InvalidInput:  # a torch that is too old for the tables
        return ""
    found = [f.level for f in (*read, *apply_rules(subject, target))]
    said = [
        plural(found.count(level), level.value) for level in (Level.ERROR, Level.WARNING) if level in found
    ]
    if not said:
        return ""
    command = shlex.join(
        ["chaoskit", "profiles", "check", given, *(["--backend", backend] if backend else [])]
    )
    return f"{named}: {' and '.join(said)}: see {command}"
