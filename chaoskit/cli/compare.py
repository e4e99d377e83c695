"""``chaoskit compare``: says what differs between two runs, without running anything."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import click

from chaoskit.cli.judge import files_of_a_run
from chaoskit.cli.judging_again import Judge, judge_folders
from chaoskit.cli.printing import complain, say
from chaoskit.cli.reporting import guarded, read_format
from chaoskit.compare.side import Side
from chaoskit.errors import ChaoskitError, ExitCode, InvalidInput, Problem
from chaoskit.model import Plan


@click.command("compare")
@click.argument("run_a", metavar="RUN_A")
@click.argument("run_b", metavar="RUN_B")
@click.option(
    "--format", "form", default="text", show_default=True, metavar="text|json", help="What stdout gets."
)
@click.option("--markdown", metavar="FILE", help="Write the comparison to FILE in Markdown, too.")
def compare(run_a: str, run_b: str, form: str, markdown: str | None) -> None:
    """Say what differs between two runs: of another cluster, image or profile. Nothing is run.

    RUN_A is the run before, RUN_B the one after; both are judged again from their files, as judge does.
    Told are scenarios gained and lost, results and culprits that changed, versions and settings that differ,
    and latencies: a statement on those takes 5 repeats (--repeat) on each side.

    The exit code is 1 if something that was held is not held now. Whatever else differs is told, and gives
    0: also a scenario that was held and of which nobody can tell any more (skipped, inconclusive, missing).

    \b
    chaoskit compare runs/20260101-120000-7 runs/20260201-120000-7
    """
    target = None if markdown is None else Path(markdown)
    sys.exit(execute((Path(run_a), Path(run_b)), form, target, sys.stdout))


def execute(runs: tuple[Path, Path], form: str, markdown: Path | None, stdout: IO[str]) -> ExitCode:
    """Compare, report, and return the exit code. Raises InvalidInput where a run cannot be read."""
    from chaoskit.compare.comparison import compare
    from chaoskit.reports import compare_json, compare_markdown, output_file

    known_form, wrong = read_format(form)
    if markdown is not None:
        wrong += output_file.problems(markdown, "--markdown")
    how, load_plan = files_of_a_run(), _plan_loader()
    sides = [side for path in runs if (side := _side(path, how, load_plan, wrong)) is not None]
    if wrong or len(sides) != 2:
        raise InvalidInput(wrong)
    found = compare(*sides)
    if not found.held_in_a:
        complain(
            "nothing is held in A, so no exit code can tell that something is lost: it is 0 whatever differs"
        )
    if markdown is not None:
        _write(markdown, compare_markdown.render(found))
    with guarded(stdout):
        if known_form == "json":
            stdout.write(compare_json.render(found))
        else:
            from chaoskit.reports.compare_text import print_comparison
            from chaoskit.reports.console import console_for

            print_comparison(found, console_for(stdout))
        stdout.flush()
    if markdown is not None and known_form == "text":
        say(f"written: {markdown}")
    return compare_json.exit_code(found)


def _plan_loader() -> Callable[[str], Plan]:
    from chaoskit import codec

    return codec.load_plan


def _side(path: Path, how: Judge, load_plan: Callable[[str], Plan], wrong: list[Problem]) -> Side | None:
    """Return the run at ``path``; None, and in ``wrong`` why, where there is not one run to compare."""
    from chaoskit.compare import files

    judged, problems = judge_folders([path], how)
    if judged is None:
        wrong += problems
        return None
    names = [(s.name, s.backend) for s in judged.scenarios]
    if len(set(names)) < len(names):
        hint = "give the folder of one run, as runs/20260101-120000-7"
        wrong.append(Problem("holds several runs", str(path), hint=hint))
        return None
    side, unread = files.read(judged.run_dir, judged.scenarios, load_plan)
    for problem in (*problems, *unread):
        complain(str(problem))
    return side


def _write(path: Path, text: str) -> None:
    from chaoskit.reports import output_file

    try:
        with output_file.replaced(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise ChaoskitError(f"{path} could not be written: {error.strerror or error}") from None
