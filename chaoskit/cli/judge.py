"""``chaoskit judge``: judges runs again from their files, without running anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO

import click

from chaoskit.cli.judging_again import Judge, PlanFacts, judge_folders
from chaoskit.cli.printing import complain
from chaoskit.cli.reporting import emit, read_format
from chaoskit.errors import ExitCode, InvalidInput, Problem
from chaoskit.reports.exit_code import exit_code


@click.command("judge")
@click.argument("run_dirs", nargs=-1, metavar="RUN_DIR...")
@click.option(
    "--format", "form", default="text", show_default=True, metavar="text|json", help="What stdout gets."
)
def judge(run_dirs: tuple[str, ...], form: str) -> None:
    """Judge run directories again from their files: the same verdicts, and nothing is run.

    RUN_DIR is the folder of a run, of one of its scenarios, or of one arm. What cannot be read is
    named, and an arm that cannot be judged is inconclusive. Where another launcher started the ranks and
    they share no folder, give the folder of every machine: those with the same plan are one arm.

    \b
    chaoskit judge runs/20260101-120000-7
    chaoskit judge collected/host-0 collected/host-1
    """
    sys.exit(execute([Path(d) for d in run_dirs], form, files_of_a_run(), sys.stdout))


def files_of_a_run() -> Judge:
    """Return how the files that the engine writes are judged; imports the engine."""
    from chaoskit import codec, engine
    from chaoskit.judge import scenario_result
    from chaoskit.model import Outcome

    def read_plan(text: str) -> PlanFacts:
        plan = codec.load_plan(text)
        completes = plan.hardened_contract.outcome is Outcome.COMPLETED
        return PlanFacts(plan.healthy, plan.seed, completes)

    return Judge(lambda folders: engine.judge_again(*folders), read_plan, scenario_result.judge)


def execute(paths: list[Path], form: str, how: Judge, stdout: IO[str]) -> ExitCode:
    """Judge ``paths``, report, and return the exit code. Raises InvalidInput where nothing can be judged."""
    known_form, wrong = read_format(form)
    if not paths:
        wrong.append(Problem("no run directory given", hint="give one or more, as runs/20260101-120000-7"))
    judged, problems = judge_folders(paths, how)
    if judged is None or wrong:
        raise InvalidInput([*wrong, *problems])
    for problem in problems:
        complain(str(problem))
    emit(judged, known_form, stdout)
    return exit_code(judged.scenarios)
