"""``chaoskit matrix``: which guard holds which fault."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from chaoskit.cli.printing import complain
from chaoskit.cli.program import ProgramCommand
from chaoskit.cli.shared_options import shared_options
from chaoskit.cli.telling_first import tell_first
from chaoskit.errors import ChaoskitError, ExitCode

if TYPE_CHECKING:
    from chaoskit.cli.matrix_options import Asked
    from chaoskit.matrix.request import MatrixObserver, MatrixRequest
    from chaoskit.matrix.values import Matrix

    Maker = Callable[[MatrixRequest, MatrixObserver], Matrix]


@click.command("matrix", cls=ProgramCommand)
@shared_options(
    one="cell",
    profile="The profile to take apart (default: each scenario's own); what it lacks is looked for, too.",
    repeat="Run every cell N times; one that differs is unsteady.",
    runs_dir="Where the folder is made: DIR/matrix.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help="Beside no guard and the profile, run only this: alone, without, alone-GUARD, without-GUARD.",
)
@click.option("--resume", metavar="DIR", help="Go on with the matrix in this folder: finished cells stay.")
@click.option("--html", metavar="FILE", help="Also write the heat map to FILE.")
@click.option("--markdown", metavar="FILE", help="Also write the Markdown tables to FILE.")
@click.option("--json", metavar="FILE", help="Also write the JSON to FILE.")
def matrix(**typed: object) -> None:
    """Run every scenario under no guard, each guard alone, the profile, and the profile without each guard.

    Says which guard holds which fault, the smallest set that holds all that the profile holds (it is run, not
    reckoned), the guards that never matter, and, with --profile, which guard would hold what it does not.
    The heat map, Markdown and JSON are in the folder that is printed.

    Exit codes are those of a run of the profile: 0 all is held or not needed, 1 something is not held, 2
    something is inconclusive or all was skipped, 64 wrong usage, 70 chaoskit's own fault, 130 interrupted.

    \b
    chaoskit matrix -k process
    chaoskit matrix --profile our-cluster.yaml --repeat 3
    chaoskit matrix -k process --script train.py -- --epochs 1
    chaoskit matrix --resume runs/matrix/20260101-120000-7

    A program of yours is run once without any fault first. A fault whose moment it never reaches is moved to
    the nearest one that it does reach, and the report says so.
    """
    from chaoskit.cli.matrix_options import MatrixOptions, read
    from chaoskit.cli.option_values import library
    from chaoskit.matrix.making import make

    options = MatrixOptions(**typed)  # type: ignore[arg-type]  # click gives the fields by name
    asked = read(options, library())
    tell_first(asked.request.run, asked.profile, sys.stderr)
    sys.exit(execute(asked, make, sys.stdout, sys.stderr))


def execute(asked: Asked, maker: Maker, stdout: IO[str], stderr: IO[str]) -> ExitCode:
    """Make what is asked, report it, and return the exit code."""
    from chaoskit.cli.reporting import guarded
    from chaoskit.reports.console import console_for
    from chaoskit.reports.matrix import json_output
    from chaoskit.reports.matrix.exit_code import exit_code
    from chaoskit.reports.matrix.text import print_matrix
    from chaoskit.reports.matrix.words import resume_line

    with _progress(asked, stdout, stderr) as observer:
        found = maker(asked.request, observer)
    files, failed = write(found, asked.copies)
    with guarded(stdout):
        if asked.form == "json":
            stdout.write(json_output.render(found))
        else:
            print_matrix(found, console_for(stdout), [str(file) for file in files])
        stdout.flush()
    if failed:
        raise ChaoskitError("\n".join(failed))
    if found.interrupted and asked.form == "json":
        complain(f"interrupted; {resume_line(found)}")
    return exit_code(found)


def _progress(asked: Asked, stdout: IO[str], stderr: IO[str]) -> AbstractContextManager[MatrixObserver]:
    from chaoskit.matrix.request import Silent
    from chaoskit.reports.console import console_for
    from chaoskit.reports.matrix.progress import MatrixProgress

    if asked.form == "json":
        return nullcontext(Silent())
    return MatrixProgress(console_for(stderr))


def write(found: Matrix, copies: tuple[tuple[str, Path], ...]) -> tuple[list[Path], list[str]]:
    """Write the reports into the matrix's own folder, and the copies asked for. Return the files, and what
    could not be written; one of them does not keep the others from being so."""
    from chaoskit.reports import output_file
    from chaoskit.reports.matrix import json_output, markdown, page

    made = {
        "--html": page.render(found),
        "--markdown": markdown.render(found),
        "--json": json_output.render(found),
    }
    folder = Path(found.origin.folder)
    own = (
        ("--html", folder / "matrix.html"),
        ("--markdown", folder / "matrix.md"),
        ("--json", folder / "matrix.json"),
    )
    written, failed = [], []
    for option, path in (*own, *copies):
        try:
            with output_file.replaced(path) as file:
                file.write(made[option].encode("utf-8", "backslashreplace"))
            written.append(path)
        except OSError as error:
            failed.append(f"{path} could not be written: {error.strerror or error}")
    return written, failed
