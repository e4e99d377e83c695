"""``chaoskit cost``: what each guard, setting or profile costs, and how much sooner a job ends for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from chaoskit.cli.option_values import library
from chaoskit.cli.printing import complain, plain, say, say_json
from chaoskit.cli.program import ProgramCommand
from chaoskit.errors import ExitCode

if TYPE_CHECKING:
    from chaoskit.cli.cost_options import AskedCost
    from chaoskit.cost.session import Asked, Detect, Measure
    from chaoskit.cost.values import CostReport, Detection
    from chaoskit.reports.cost.progress import CostProgress
    from chaoskit.request import Observer


@click.command("cost", cls=ProgramCommand)
@click.argument("words", nargs=-1, metavar="[WHAT]... [SCRIPT]")
@click.option("-m", "--module", metavar="NAME", help="Time the steps of a module of yours, as for python -m.")
@click.option("--against", metavar="WHAT", help="What each is compared with (default: torch-defaults).")
@click.option("--list", "listed", is_flag=True, help="Name the settings, guards and profiles; run nothing.")
@click.option("--ddp", is_flag=True, help="Time a DDP model (the default, unless another case is asked for).")
@click.option("--bucket", metavar="SIZE", help="Its buckets: 1MiB, 1MiB,16MiB or 64KiB..16MiB.")
@click.option("--layers", metavar="N", help="Its layers, a bucket each (default: 8).")
@click.option(
    "--compute", metavar="X[,X]", help="Its time of computing over its time of communicating (default: 1)."
)
@click.option(
    "--op", metavar="OP[,OP]|all", help="Time bare collectives: all_reduce, all_gather, reduce_scatter, ..."
)
@click.option("--size", metavar="SIZE", help="Their sizes (default with --op: 8B..256MiB, in steps of 8).")
@click.option("--backend", default="gloo", metavar="gloo|nccl", help="The backend (default: gloo).")
@click.option("--ranks", metavar="N", help="Time N ranks (default: 2).")
@click.option("--budget", metavar="DURATION", help="Time for each comparison (default: 30s).")
@click.option("--width", metavar="PERCENT", help="Half the width of the interval to aim at (default: 1%).")
@click.option("--seed", metavar="S", help="The seed of the order of blocks (default: drawn, and printed).")
@click.option("--limit", metavar="PERCENT", help="What it may cost at most: sets the exit code.")
@click.option(
    "--detect/--no-detect",
    default=None,
    help="Also time how soon a job with a fault ends (default: for whole profiles and blocking wait).",
)
@click.option(
    "--runs-dir", default="runs", show_default=True, metavar="DIR", help="Where the run directory is made."
)
@click.option(
    "--format", "form", default="text", show_default=True, metavar="text|json", help="What stdout gets."
)
@click.option("--json", metavar="FILE", help="Also write the report as JSON.")
@click.option(
    "--markdown", metavar="FILE", help="Also write it as Markdown; $GITHUB_STEP_SUMMARY is added to."
)
@click.option("--html", metavar="FILE", help="Also write it as a page, with plots.")
@click.option("--plots", metavar="DIR", help="Also write the plots as SVG files.")
def cost(listed: bool, **typed: object) -> None:
    """Measure what hardening costs in throughput, and how much sooner a job with a fault ends for it.

    WHAT is a profile (a name or a file), guard:NAME, NAME=VALUE (a variable), a file of variables (*.env),
    or a setting that `--list` names. Both sides are timed in turns in one run, so that the machine's noise
    cancels out; each proves its settings in effect first. Without WHAT: recommended and strict.

    \b
    chaoskit cost
    chaoskit cost strict guard:consistency --limit 2%
    chaoskit cost serialised-waits --op all_reduce --size 8B..64MiB --html cost.html
    chaoskit cost ours.yaml --against theirs.yaml train.py -- --data /tmp/d

    Exit codes: 0 within the limit, 1 above it, 2 unclear or not timed, 64 wrong usage, 70 chaoskit's own
    fault, 130 interrupted (what was measured is reported).
    """
    if listed:
        show_list(str(typed["form"]))
        return
    from chaoskit.cli.cost_options import CostOptions, read

    options = CostOptions(**typed)  # type: ignore[arg-type]  # click gives the fields by name
    asked = read(options, library())
    from chaoskit.cost.measuring import measure  # needs what was just looked for

    sys.exit(execute(asked, measure, detect_here, sys.stdout, sys.stderr))


def execute(asked: AskedCost, measure: Measure, detect: Detect, stdout: IO[str], stderr: IO[str]) -> ExitCode:
    """Measure, report, and return the exit code. The files are written also of what was interrupted."""
    from chaoskit.cli.cost_files import write
    from chaoskit.cli.reporting import emit_written
    from chaoskit.cost import limit, session

    written: list[Path] = []
    with _progress(asked, stdout, stderr) as shown:
        report = session.run(asked.asked, measure, detect, shown, shown)
    if report.interrupted:
        print("interrupted: what was measured until then is told", file=stderr)
    try:
        written = write(asked.files, report, asked.limit)
    finally:
        _print(report, asked, stdout)
    if asked.files.plots is not None and not any(path.suffix == ".svg" for path in written):
        complain("nothing to plot: that takes several sizes, or detection under two or more")
    if asked.form == "text":
        emit_written(written, stdout)
    return limit.exit_code(report, asked.limit)


def detect_here(asked: Asked, seed: int, observer: Observer) -> tuple[tuple[Detection, ...], bool]:
    """Run the scenarios under what is to be detected with."""
    from chaoskit.cost.detection import detect

    request = asked.requests[0]
    return detect(asked.detected, request.backend, request.runs_dir, seed, observer, command=request.command)


def _progress(asked: AskedCost, stdout: IO[str], stderr: IO[str]) -> CostProgress:
    from chaoskit.cost.detection import planned
    from chaoskit.reports.console import console_for, is_live
    from chaoskit.reports.cost.progress import CostProgress, Expected

    stream = stderr if asked.form == "json" or not is_live(stdout, console_for(stdout)) else stdout
    console = console_for(stream)
    request, detected = asked.asked.requests[0], asked.asked.detected
    arms, detection_s = planned(detected, request.backend) if detected else (0, 0.0)
    names = tuple(one.name for one in detected)
    expected = Expected(asked.asked.comparisons, request.budget_s, arms, detection_s, names)
    return CostProgress(console, expected, is_live(stream, console))


def _print(report: CostReport, asked: AskedCost, stdout: IO[str]) -> None:
    from chaoskit.cli.reporting import guarded

    with guarded(stdout):
        if asked.form == "json":
            from chaoskit.reports.cost import json_output

            stdout.write(json_output.render(report, asked.limit))
        else:
            from chaoskit.reports.console import console_for
            from chaoskit.reports.cost.text import print_report

            print_report(report, asked.limit, console_for(stdout))
        stdout.flush()


# ---------------------------------------------------------------- --list


def show_list(form: str) -> None:
    """Name everything that can stand for WHAT. Loads no torch."""
    from chaoskit.cli.reporting import read_format
    from chaoskit.cost.named_settings import SETTINGS
    from chaoskit.errors import InvalidInput
    from chaoskit.guards import REGISTRY
    from chaoskit.scenario import load_profile, profile_names

    known_form, wrong = read_format(form)
    if wrong:
        raise InvalidInput(wrong)
    settings = [(s.form, s.about, s.backends) for s in SETTINGS.values()]
    guards = [name for name in REGISTRY.names() if (cls := REGISTRY.get(name)) and cls.lives_in in _TIMED]
    profiles = [(name, load_profile(name).summary) for name in profile_names()]
    if known_form == "json":
        say_json(
            {
                "settings": [{"form": f, "about": a, "backends": list(b)} for f, a, b in settings],
                "guards": [f"guard:{name}" for name in guards],
                "profiles": [{"name": name, "summary": summary} for name, summary in profiles],
            }
        )
        return
    width = max(len(form) for form, _, _ in settings)
    say("settings")
    for name, about, backends in settings:
        only = f" ({backends[0]} only)" if len(backends) == 1 else ""
        say(f"  {name:<{width}}  {about}{only}")
    say("profiles (or a file, as ./ours.yaml)")
    for name, about in profiles:
        say(f"  {name:<{width}}  {about}")
    say("guards, as in the profile strict")
    for first in range(0, len(guards), 4):
        say(f"  {', '.join(plain(f'guard:{name}') for name in guards[first : first + 4])}")
    say("variables: NAME=VALUE, or a file of such lines, as ./ours.env")


_TIMED = ("rank", "sidecar")
