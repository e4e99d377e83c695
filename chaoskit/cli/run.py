"""``chaoskit run``: runs scenarios, shows what happens, and says what came of it."""

from __future__ import annotations

import os
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
from chaoskit.errors import ChaoskitError, ExitCode
from chaoskit.reports.exit_code import exit_code
from chaoskit.reports.judged import Judged
from chaoskit.request import Observer, RunRequest, RunResult

Engine = Callable[[RunRequest, Observer], RunResult]


@click.command("run", cls=ProgramCommand)
@click.argument("selectors", nargs=-1, metavar="[NAME|PATH|tag:TAG|all]...")
@click.option(
    "--script",
    metavar="FILE",
    help="Run this script of yours in place of each scenario's workload, with ARGS. It needs no change.",
)
@click.option("--module", metavar="NAME", help="The same for a module, as for python -m.")
@click.option(
    "--launcher",
    metavar="forkserver|torchrun|command",
    help="What starts the ranks (default: forkserver). With command, ARGS are the whole command line.",
)
@click.option(
    "--within",
    metavar="DURATION",
    help="Time without any progress that your program may take before its fault (default: chosen for it).",
)
@click.option(
    "-k",
    "keyword",
    metavar="EXPR",
    help="Keep scenarios whose name, family or tags match: 'memory and not cgroup'.",
)
@click.option("-x", "stop_at_first", is_flag=True, help="Stop at the first scenario that is not held.")
@click.option(
    "--profile",
    metavar="NAME|FILE",
    help="Test this profile in place of the hardened arm's; the control still runs.",
)
@click.option("--arm", "arms", multiple=True, metavar="NAME", help="Run only this arm. May be repeated.")
@click.option("--backend", metavar="gloo|nccl", help="Use this backend instead of the scenario's.")
@click.option(
    "--ranks",
    "--nproc-per-node",
    "ranks",
    metavar="N",
    help="Start N ranks instead of the scenario's number.",
)
@click.option(
    "--gpu-sharing",
    metavar="auto|host-ids|multi-rank",
    help="How ranks share a GPU on nccl, where there are fewer GPUs than ranks (default: the scenario's).",
)
@click.option("--jobs", metavar="N", help="At most N busy arms at a time (default: the number of cores).")
@click.option("--seed", metavar="S", help="The seed of everything random (default: drawn, and printed).")
@click.option("--repeat", metavar="N", help="Run every arm N times and compare.")
@click.option("--timeout", metavar="DURATION", help="Bound each arm, as 30s or 2m.")
@click.option("--time-scale", metavar="X|auto", help="Multiply the profiles' durations by X (default: auto).")
@click.option(
    "--require",
    multiple=True,
    metavar="WHAT",
    help="A skip for want of WHAT is inconclusive. May be repeated.",
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
    tell_left_out(sys.stderr)
    _tell_of_profile(asked, options.profile or "")
    if asked.request.program is not None and asked.form != "json":
        complain(f"{asked.request.program.name} is run once without any fault first, to see what it does")
    sys.exit(execute(asked, engine.run, sys.stdout, sys.stderr))


def tell_left_out(stderr: IO[str] | None) -> None:
    """Say which variables of the caller the ranks do not get: no arm is to depend on them unseen."""
    from chaoskit.launchers.forkserver import LEFT_OUT

    names = sorted(name for name in os.environ if name.startswith(LEFT_OUT))
    if names and stderr is not None:
        print(f"not given to the ranks (put it into a profile to test it): {', '.join(names)}", file=stderr)


def _tell_of_profile(asked: Asked, given: str) -> None:
    """Say in one line that something is wrong with the user's own profile. The built-in ones are as meant."""
    from chaoskit.cli.profiles_check import in_one_line
    from chaoskit.scenario import profile_names

    if asked.request.profile is None or given in profile_names():
        return
    named = {b for s in asked.request.scenarios for b in (asked.request.backend or s.topology.backend,)}
    if line := in_one_line(asked.request.profile, given, next(iter(named)) if len(named) == 1 else None):
        complain(line)


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
