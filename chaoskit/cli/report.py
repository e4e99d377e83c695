"""``chaoskit report``: tells of runs again from their files, on the terminal or in a file to look at."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import click

from chaoskit.cli.judge import files_of_a_run
from chaoskit.cli.judging_again import RECORD, Judge, judge_arms
from chaoskit.cli.made_by import maker, said_of
from chaoskit.cli.outputs import STDOUT, TRACED_MAX, Folders, Outputs, named, to_trace, write
from chaoskit.cli.printing import complain
from chaoskit.cli.reporting import emit, emit_annotations, emit_written, guarded, read_format
from chaoskit.errors import ExitCode, InvalidInput, Problem
from chaoskit.reports.judged import Judged

RUNS = Path("runs")
_ALONE = ""  # the option was given without a file
_NAMES = {"html": "report.html", "trace": "trace.json", "markdown": "report.md", "junit": "junit.xml"}
"""The file of each report, in the run directory, where none is named."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What the user typed. None: not given."""

    run_dirs: tuple[str, ...] = ()
    html: str | None = None
    trace: str | None = None
    markdown: str | None = None
    junit: str | None = None
    github: bool = False
    form: str | None = None


@click.command("report")
@click.argument("run_dirs", nargs=-1, metavar="[RUN_DIR]...")
@click.option(
    "--html",
    is_flag=False,
    flag_value=_ALONE,
    metavar="[FILE]",
    help="Write an HTML page that needs nothing else (default: report.html in RUN_DIR).",
)
@click.option(
    "--trace",
    is_flag=False,
    flag_value=_ALONE,
    metavar="[FILE]",
    help="Write a trace for Perfetto (ui.perfetto.dev; default: trace.json; FILE.gz is compressed).",
)
@click.option(
    "--markdown",
    is_flag=False,
    flag_value=_ALONE,
    metavar="[FILE]",
    help="Write a summary for a merge request (default: report.md).",
)
@click.option(
    "--junit",
    is_flag=False,
    flag_value=_ALONE,
    metavar="[FILE]",
    help="Write a JUnit report (default: junit.xml).",
)
@click.option("--github", is_flag=True, help="Print annotations for a GitHub job.")
@click.option(
    "--format",
    "form",
    metavar="text|json",
    help="Print the verdicts so (default: text, where no other report is asked for).",
)
def report(**typed: object) -> None:
    """Tell of a run again, from its files alone; nothing is run.

    RUN_DIR is the folder of a run, of one of its scenarios, or of one arm; without one, the newest run in
    ./runs (of those that cost, matrix and claims make for themselves: none). FILE goes behind RUN_DIR, or as
    --html=FILE; - is the standard output. An arm is judged anew, as by chaoskit judge, and what cannot be
    read of it is said. A trace shows up to 8 arms.

    \b
    chaoskit report
    chaoskit report runs/20260101-120000-7 --html
    chaoskit report runs/20260101-120000-7/rank-stopped/hardened --trace hang.json.gz
    chaoskit report runs/20260101-120000-7 --github --markdown "$GITHUB_STEP_SUMMARY"

    A report is no gate: exit code 0 says that it was written, whatever the verdicts are. 64 is wrong usage,
    or nothing that can be read.
    """
    options = ReportOptions(**typed)  # type: ignore[arg-type]  # click gives the fields by name
    sys.exit(execute(options, files_of_a_run(), sys.stdout, sys.stderr))


def execute(options: ReportOptions, how: Judge, stdout: IO[str], stderr: IO[str]) -> ExitCode:
    """Judge, write and print what is asked for. Raises InvalidInput where nothing can be read."""
    form, problems = read_format(options.form or "text")
    paths = [Path(d) for d in options.run_dirs] or _newest(RUNS, problems)
    outputs = _outputs(options, paths, problems)
    if problems:
        raise InvalidInput(problems)
    for line in filter(None, map(said_of, paths)):
        complain(line)
    again = judge_arms(paths, how)
    if again.judged is None:
        raise InvalidInput(again.problems)
    if wrong := [*outputs.problems(stdout_free=True), *_untraceable(outputs, again.judged, again.folders)]:
        raise InvalidInput(wrong)
    for problem in again.problems:
        complain(str(problem))
    judged = named(again.judged, again.folders)
    with guarded(stdout):
        written = write(outputs, judged, again.folders, getattr(stdout, "buffer", None))
    asked = options.form is not None
    if asked or not (outputs.files or outputs.github):
        emit(judged, form, stdout)
    if outputs.github:
        emit_annotations(judged, stdout)
    taken = asked or outputs.github or any(path == STDOUT for _, path in outputs.files)
    emit_written(written, stderr if taken else stdout)
    return ExitCode.OK


def _outputs(options: ReportOptions, paths: list[Path], problems: list[Problem]) -> Outputs:
    files: dict[str, Path | None] = {}
    for name, default in _NAMES.items():
        text: str | None = getattr(options, name)
        files[name] = None if text is None else Path(text)
        if text == _ALONE:
            files[name] = paths[0] / default if paths else None
            if len(paths) > 1:
                problems.append(
                    Problem(
                        f"--{name}: of several run directories it needs a FILE", hint=f"as --{name}={default}"
                    )
                )
    outputs = Outputs(**files, github=options.github)
    on_stdout = [option for option, path in outputs.files if path == STDOUT]
    on_stdout += ["--github"] if options.github else []
    on_stdout += [f"--format {options.form}"] if options.form is not None else []
    if len(on_stdout) > 1 and on_stdout != ["--github", "--format text"]:
        problems.append(
            Problem(
                f"{' and '.join(on_stdout)}: only one of them can have the standard output",
                hint="give the others a file",
            )
        )
    return outputs


def _untraceable(outputs: Outputs, judged: Judged, folders: Sequence[Folders]) -> list[Problem]:
    if outputs.trace is None:
        return []
    arms = to_trace(judged, folders)
    if not arms:
        return [Problem("--trace: no arm here has a history", str(judged.run_dir))]
    if len(arms) <= TRACED_MAX:
        return []
    hint = f"name an arm: chaoskit report {arms[0][0]} --trace"
    return [Problem(f"--trace: shows at most {TRACED_MAX} arms, and here are {len(arms)}", hint=hint)]


def _newest(runs: Path, problems: list[Problem]) -> list[Path]:
    """The run in ``runs`` that was begun last, of those that a user asked for: their names begin with the
    time."""
    try:
        found = sorted(path for path in runs.iterdir() if (path / RECORD).is_file())
    except OSError:
        found = []
    newer: dict[str, None] = {}
    for run in reversed(found):
        if made_by := maker(run):
            newer[f"chaoskit {made_by}"] = None
            continue
        left_out = f" (what is newer was made by {' and '.join(newer)} for itself)" if newer else ""
        complain(f"the newest run: {os.path.join(run, '')}{left_out}")
        return [run]
    but = f" but what {' and '.join(newer)} made for itself" if newer else ""
    hint = "give one, as runs/20260101-120000-7"
    problems.append(Problem(f"no run directory given, and there is no run in ./{runs}{but}", hint=hint))
    return []
