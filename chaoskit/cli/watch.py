"""``chaoskit watch``: runs the user's own program without any fault, and says what came of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO

import click

from chaoskit.cli.observers import Both, Known, progress
from chaoskit.cli.option_values import library
from chaoskit.cli.program import ProgramCommand
from chaoskit.cli.reporting import tell
from chaoskit.cli.telling_first import tell_left_out
from chaoskit.cli.watch_options import AskedToWatch, WatchOptions, read
from chaoskit.errors import ExitCode
from chaoskit.reports.exit_code import exit_code
from chaoskit.reports.judged import Judged
from chaoskit.request import Observer, RunResult, WatchRequest

Engine = Callable[[WatchRequest, Observer], RunResult]


@click.command("watch", cls=ProgramCommand)
@click.argument("words", nargs=-1, metavar="[SCRIPT]")
@click.option("-m", "--module", metavar="NAME", help="Watch a module, as for python -m.")
@click.option(
    "--ranks",
    "--nproc-per-node",
    "ranks",
    metavar="N",
    help="Start N ranks (default: 4). A command says itself how many it starts.",
)
@click.option(
    "--launcher",
    metavar="forkserver|torchrun|command",
    help="What starts the ranks (default: forkserver, which is fast). With command, or with neither script"
    " nor module, ARGS are a whole command line.",
)
@click.option("--profile", metavar="NAME|FILE", help="Arm this profile's guards (default: torch-defaults).")
@click.option(
    "--within",
    metavar="DURATION",
    help="Time without any progress after which it is hung (default: 5m).",
)
@click.option(
    "--timeout", metavar="DURATION", help="Time for the whole run; more is overdue (default: none)."
)
@click.option("--backend", default="gloo", metavar="gloo|nccl", help="What the program uses (default: gloo).")
@click.option(
    "--seed",
    metavar="S",
    help="The number of the run (default: drawn). Your program seeds itself.",
)
@click.option(
    "--native", is_flag=True, help="Of a rank that hangs, read the stacks of native code too (slower)."
)
@click.option(
    "--runs-dir", default="runs", show_default=True, metavar="DIR", help="Where the run directory is made."
)
@click.option(
    "--format", "form", default="text", show_default=True, metavar="text|json", help="What stdout gets."
)
@click.option("--junit", metavar="FILE", help="Also write a JUnit report to FILE.")
@click.option("--html", metavar="FILE", help="Also write an HTML report to FILE.")
@click.option(
    "--markdown", metavar="FILE", help="Also write a Markdown summary; $GITHUB_STEP_SUMMARY is added to."
)
@click.option("--github", is_flag=True, help="Also print annotations for a GitHub job.")
def watch(**typed: object) -> None:
    """Watch your own program as it is: no fault is injected, and nothing in it has to change.

    It has to complete, with replicas that agree where that can be checked. If it does not, the rank,
    operation and line to blame are named. A slow rank passes and is named. ARGS go to the program
    unchanged.

    \b
    chaoskit watch train.py
    chaoskit watch train.py --ranks 2 --within 60s -- --epochs 1 --data /tmp/d
    chaoskit watch -m pkg.train --launcher torchrun --profile recommended -- --epochs 1
    chaoskit watch -- torchrun --nproc-per-node 4 train.py --epochs 1

    Exit codes: 0 it passes, 1 it fails, 2 inconclusive, 64 wrong usage, 70 chaoskit's own fault,
    130 interrupted.
    """
    from chaoskit import engine

    options = WatchOptions(**typed)  # type: ignore[arg-type]  # click gives the fields by name
    asked = read(options, library())
    tell_left_out(sys.stderr)
    sys.exit(execute(asked, engine.watch, sys.stdout, sys.stderr))


def execute(asked: AskedToWatch, engine: Engine, stdout: IO[str], stderr: IO[str]) -> ExitCode:
    """Watch, report, and return the exit code. An interrupt reports what is known."""
    known = Known()
    name = asked.request.program.name
    try:
        with progress(stdout, stderr, json=asked.form == "json", watching=name) as observer:
            judged = Judged.of(engine(asked.request, Both(known, observer)))
    except KeyboardInterrupt:
        if known.run_dir is None:
            raise
        judged = known.interrupted(_torch_version())
    tell(judged, asked.outputs, asked.form, stdout, stderr, name)
    return exit_code(judged.scenarios, interrupted=judged.interrupted)


def _torch_version() -> str:
    from chaoskit import rundir

    return rundir.version("torch")
