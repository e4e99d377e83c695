"""``chaoskit plan``: writes the plan of one arm, for ranks that a launcher of the user's starts."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from chaoskit.cli.option_values import library
from chaoskit.cli.plan_options import Planned, PlanOptions, read
from chaoskit.cli.printing import complain, say
from chaoskit.cli.program import ProgramCommand
from chaoskit.errors import ChaoskitError
from chaoskit.model import Plan


@click.command("plan", cls=ProgramCommand)
@click.argument("words", nargs=-1, metavar="[SCENARIO]")
@click.option("--arm", metavar="NAME", help="The arm to plan, as control or hardened.")
@click.option("--script", metavar="FILE", help="Your script, in place of the scenario's workload, with ARGS.")
@click.option("--module", metavar="NAME", help="The same for a module, as for python -m.")
@click.option(
    "--survey",
    metavar="DIR",
    help="The run directory of a chaoskit watch of the program: moments that it never reaches are moved.",
)
@click.option("--ranks", metavar="N", help="How many ranks the launcher starts (default: the scenario's).")
@click.option("--profile", metavar="NAME|FILE", help="Test this profile in place of the hardened arm's.")
@click.option("--backend", metavar="gloo|nccl", help="Use this backend instead of the scenario's.")
@click.option("--seed", metavar="S", help="The seed of everything random (default: drawn, and printed).")
@click.option("--time-scale", metavar="X|auto", help="Multiply the profiles' durations by X (default: auto).")
@click.option("--within", metavar="DURATION", help="Time without any progress that the program may take.")
@click.option("--timeout", metavar="DURATION", help="Bound the arm, as 30s or 2m.")
@click.option("--output", "-o", metavar="FILE", help="Write to FILE: a plan.json in a folder of its own.")
def plan(**typed: object) -> None:
    """Write the plan of one arm, for a launcher that chaoskit does not start.

    Each rank joins by the plan alone: start `python -m chaoskit.rank --plan FILE train.py ARGS` in the
    place of `python train.py ARGS`. The ranks write beside FILE, or with --dir into another folder, and
    `chaoskit judge DIR...` judges them. Without a SCENARIO the program is watched as it is.

    \b
    chaoskit plan rank-killed-mid-all-reduce --arm hardened --script train.py --ranks 8 -o /shared/a/plan.json
    srun --ntasks 8 python -m chaoskit.rank --plan /shared/a/plan.json train.py --epochs 1
    chaoskit judge /shared/a

    Nothing is run, so nobody knows here what the program does: a fault whose moment it never reaches is
    not injected, and the verdict says how far it got. Watch the program first and give --survey to have
    such moments moved.
    """
    options = PlanOptions(**typed)  # type: ignore[arg-type]  # click gives the fields by name
    asked = read(options, library())
    write(asked)
    for line in next_steps(asked.plan, asked.path):
        say(line)


def next_steps(made: Plan, path: Path) -> list[str]:
    """Return what to do with the plan."""
    program = made.workload
    words = {"script": [program.target], "module": ["-m", program.target]}.get(program.kind, [])
    command = ["python", "-m", "chaoskit.rank", "--plan", os.path.abspath(path), *words, *program.args]
    return [
        f"{path} is written: {made.scenario}, arm {made.arm}, {len(made.ranks)} ranks, seed {made.seed}",
        *(f"note: {note}" for note in made.notes),
        f"each rank runs: {shlex.join(command)}",
        f"then: {shlex.join(['chaoskit', 'judge', os.path.abspath(path.parent)])}",
    ]


def withheld(shown: Plan) -> list[str]:
    """Return what has to reach the ranks in another way: the plan is written without secrets."""
    from chaoskit.secret_shapes import HIDDEN

    said = [
        f"{name} looks secret and is not written into the plan: set it where the ranks are started"
        for name, value in shown.profile.env
        if value == HIDDEN
    ]
    if any(HIDDEN in word for word in shown.workload.args):
        said.append("secrets among the arguments are not written into the plan: give them to each rank")
    return said


def write(asked: Planned) -> None:
    """Write the plan, without secrets. Raises ChaoskitError where that fails."""
    from chaoskit import codec
    from chaoskit.redacting import Redactor

    shown = Redactor.of(os.environ, words=sys.argv).knowing([asked.plan]).plan(asked.plan)
    for secret in withheld(shown):
        complain(secret)
    if asked.doubts:
        complain(f"on this machine it would be skipped: {asked.doubts}")
    try:
        asked.path.parent.mkdir(parents=True, exist_ok=True)
        with asked.path.open("x", encoding="utf-8") as file:
            file.write(codec.dump_plan(shown))
    except OSError as error:
        raise ChaoskitError(f"{asked.path} could not be written: {error.strerror or error}") from None
