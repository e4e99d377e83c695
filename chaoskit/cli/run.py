"""``chaoskit run``: runs scenarios, shows what happens, and says what came of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO

import click

from chaoskit.cli.observers import Both, Known, progress
from chaoskit.cli.option_values import library
from chaoskit.cli.outputs import folders_of, write
from chaoskit.cli.printing import complain
from chaoskit.cli.program import ProgramCommand
from chaoskit.cli.reporting import tell
from chaoskit.cli.run_options import Asked, RunOptions, read
from chaoskit.cli.shared_options import shared_options
from chaoskit.cli.telling_first import tell_first
from chaoskit.errors import ChaoskitError, ExitCode
from chaoskit.reports.exit_code import exit_code
from chaoskit.reports.judged import Judged
from chaoskit.request import Observer, RunRequest, RunResult

Engine = Callable[[RunRequest, Observer], RunResult]


@click.command("run", cls=ProgramCommand)
@shared_options(
    one="arm",
    profile="Test this profile in place of the hardened arm's; the control still runs.",
    repeat="Run every arm N times and compare.",
    runs_dir="Where the run directory is made.",
)
@click.option("-x", "stop_at_first", is_flag=True, help="Stop at the first scenario that is not held.")
@click.option("--arm", "arms", multiple=True, metavar="NAME", help="Run only this arm. May be repeated.")
@click.option("--junit", metavar="FILE", help="Also write a JUnit report to FILE.")
@click.option("--html", metavar="FILE", help="Also write an HTML report to FILE.")
@click.option(
    "--markdown", metavar="FILE", help="Also write a Markdown summary; $GITHUB_STEP_SUMMARY is added to."
)
@click.option("--github", is_flag=True, help="Also print annotations for a GitHub job.")
def run(**typed: object) -> None:
    """Run scenarios on real process groups and judge what happened.

    Without a name every scenario of the library runs. Exit codes: 0 all is held or not needed,
    1 something is not held, 2 something is inconclusive or all was skipped, 64 wrong usage,
    70 chaoskit's own fault, 130 interrupted.

    \b
    chaoskit run rank-stopped
    chaoskit run all --profile our-cluster.yaml
    chaoskit run all --script train.py -- --epochs 1
    chaoskit run rank-stopped --launcher torchrun --module pkg.train -- --data /tmp/d

    With a program of yours, a fault whose moment it never reaches is moved to the nearest one that it
    does reach, and the report says so.
    """
    from chaoskit import engine

    options = RunOptions(**typed)  # type: ignore[arg-type]  # click gives the fields by name
    asked = read(options, library())
    tell_first(asked.request, options.profile, sys.stderr)
    if asked.request.program is not None and asked.form != "json":
        complain(f"{asked.request.program.name} is run once without any fault first, to see what it does")
    sys.exit(execute(asked, engine.run, sys.stdout, sys.stderr))


def execute(asked: Asked, engine: Engine, stdout: IO[str], stderr: IO[str]) -> ExitCode:
    """Run what is asked, report it, and return the exit code.

    The files are written whatever happens once arms have run: interrupted, or chaoskit's own fault.
    """
    known = Known()
    shown = progress(stdout, stderr, json=asked.form == "json")
    try:
        with shown as observer:
            judged = Judged.of(engine(asked.request, Both(known, observer)))
    except KeyboardInterrupt:
        if known.run_dir is None:
            raise
        judged = known.interrupted(_torch_version())
    except BaseException:
        if known.run_dir is not None:
            with suppress(ChaoskitError):  # the first error is the one to tell
                known_so_far = known.interrupted(_torch_version())
                write(asked.outputs, known_so_far, folders_of(known_so_far))
        raise
    tell(judged, asked.outputs, asked.form, stdout, stderr)
    return exit_code(judged.scenarios, interrupted=judged.interrupted)


def _torch_version() -> str:
    from chaoskit import rundir

    return rundir.version("torch")
