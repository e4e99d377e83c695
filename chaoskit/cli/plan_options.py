"""From the options of ``chaoskit plan``, as typed, to the plan of one arm, or to all that is wrong."""

from __future__ import annotations

import dataclasses
import os
import random
import shlex
from dataclasses import dataclass
from pathlib import Path

from chaoskit.cli.judging_again import HISTORY, PLAN, SURVEY
from chaoskit.cli.option_values import Found, Library, did_you_mean
from chaoskit.cli.shared_options import SharedOptions, chosen_scenarios, read_shared
from chaoskit.errors import usage
from chaoskit.model import Launcher, Plan, Scenario, Workload
from chaoskit.request import WATCH, RunRequest, WatchRequest
from chaoskit.scenario.survey import Survey

OUTSIDE: Launcher = "command"
"""Somebody else starts the ranks, and has own rules for the end of a job."""


@dataclass(frozen=True, slots=True)
class PlanOptions(SharedOptions):
    """What the user typed; of the options of a run only some. None: not given."""

    words: tuple[str, ...] = ()
    arm: str | None = None
    survey: str | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan that is to be written. ``doubts``: why it would be skipped on this machine, if so."""

    plan: Plan
    path: Path
    doubts: str = ""


def read(options: PlanOptions, library: Library) -> Planned:
    """Return the plan that the options ask for. Raises InvalidInput with all that is wrong with them."""
    found = Found(library)
    scenario = _scenario(options, found)
    request = read_shared(options, (), found, repeats_max=1)
    program = request.program
    survey = None if options.survey is None else found.attempt(lambda: surveyed(Path(options.survey or "")))
    notes: tuple[str, ...] = ()
    if scenario is not None and program is not None:
        scenario, notes = _with(scenario, program, survey, found)
    elif survey is not None:
        found.add(
            "--survey: says what a program does, and none is given", "add --script FILE or --module NAME"
        )
    if scenario is None and not options.words and not found.problems and program is None:
        found.add("nothing to plan", "give a scenario and --arm NAME, or --script FILE to watch it as it is")
    request = dataclasses.replace(
        request,
        scenarios=() if scenario is None else (scenario,),
        arms=() if options.arm is None else (options.arm,),
        launcher=OUTSIDE,
    )
    path = _path(options.output, found)
    found.raise_any()
    seed = random.SystemRandom().randrange(1 << 31) if request.seed is None else request.seed
    if scenario is None:
        assert program is not None
        return Planned(_to_watch(request, program, seed), path)
    made = _of_arm(request, seed, path, notes)
    return made if options.survey is None else _with_survey_again(made, options.survey)


def _scenario(options: PlanOptions, found: Found) -> Scenario | None:
    if not options.words:
        if options.arm is not None:
            found.add(f"--arm {options.arm}: of which scenario?", "see: chaoskit list")
        return None
    chosen = chosen_scenarios(options.words, None, found)
    if len(chosen) > 1:
        found.add(f"a plan is for one scenario, and {len(chosen)} are meant", "name one: chaoskit list")
    if len(chosen) != 1:
        return None
    names = [arm.name for arm in chosen[0].arms]
    if options.arm not in names:
        hint = did_you_mean(options.arm or "", names) or f"it has: {', '.join(names)}"
        missing = "no arm is given" if options.arm is None else f"{chosen[0].name} has no arm {options.arm!r}"
        found.add(f"--arm: {missing}", hint)
    return chosen[0]


def _with(
    scenario: Scenario, program: Workload, survey: Survey | None, found: Found
) -> tuple[Scenario, tuple[str, ...]]:
    """The scenario with the user's program, and what was changed to fit it.

    Without a survey nobody knows yet what the program does: the moments stay where they are.
    """
    from chaoskit.scenario.adapting import Unfit, adapt

    if survey is not None:
        try:
            return adapt(scenario, program, survey)
        except Unfit as unfit:
            found.add(f"{scenario.name}: cannot be had on {program.name}: {unfit}")
            return scenario, ()
    arms = tuple(
        dataclasses.replace(a, expect=dataclasses.replace(a.expect, kind=None, says="", exit_codes=()))
        for a in scenario.arms
    )
    return dataclasses.replace(scenario, workload=program, arms=arms, known=()), ()


def surveyed(path: Path) -> Survey:
    """Return what a program did that was watched as it is: in a run, or before one. Raises InvalidInput."""
    from chaoskit import codec, history
    from chaoskit.scenario.survey import survey_of

    hint = "give the run directory of a chaoskit watch that completed, or of a chaoskit run --script"
    for folder in (path, path / WATCH / WATCH, path / SURVEY / "control"):
        if not (folder / HISTORY).is_file():
            continue
        try:
            plan = codec.load_plan((folder / PLAN).read_text(encoding="utf-8"))
            found, _ = history.read(folder / HISTORY)
        except (OSError, UnicodeDecodeError) as error:
            raise usage(f"--survey {path}: cannot be read: {error}", hint) from None
        if plan.scenario == WATCH:
            return survey_of(found)
    raise usage(f"--survey {path}: no program was watched there", hint)


def _with_survey_again(made: Planned, survey: str) -> Planned:
    """The plan, which is made again with the same survey: that says where its faults were moved to."""
    program, command, *rest = shlex.split(made.plan.rerun)
    rerun = shlex.join([program, command, "--survey", os.path.abspath(survey), *rest])
    return dataclasses.replace(made, plan=dataclasses.replace(made.plan, rerun=rerun))


def _path(text: str | None, found: Found) -> Path:
    """Where the plan goes: the ranks write beside it, and judge looks for a file of its name."""
    path = Path(text or PLAN)
    if text is None:
        found.add("--output: where is the plan to be written?", "as --output runs/mine/plan.json")
    elif path.name != PLAN:
        folder = path if path.suffix != ".json" else path.with_suffix("")
        found.add(
            f"--output {text!r}: the file has to be called {PLAN}, judge looks for that name",
            f"give it a folder of its own: {folder / PLAN}",
        )
    elif path.exists():
        found.add(f"{path} exists already", "choose another folder: nothing is overwritten")
    elif any(path.parent.glob("rank[0-9]*")):
        found.add(f"{path.parent} holds what ranks of another arm wrote", "choose another folder")
    return path


def _to_watch(request: RunRequest, program: Workload, seed: int) -> Plan:
    from chaoskit.agenda import plan_to_watch

    asked = WatchRequest(
        program, launcher=OUTSIDE, profile=request.profile, timeout_s=request.timeout_s, seed=seed,
        backend=request.backend or "gloo",
    )  # fmt: skip
    if request.ranks is not None:
        asked = dataclasses.replace(asked, ranks=request.ranks)
    if request.stall_s is not None:
        asked = dataclasses.replace(asked, stall_s=request.stall_s)
    return plan_to_watch(asked, seed, None)


def _of_arm(request: RunRequest, seed: int, path: Path, notes: tuple[str, ...]) -> Planned:
    from chaoskit.agenda import Agenda

    (item,) = Agenda(request, seed, isolated=True).items()
    (plan,) = item.plans.values()
    if needing := [i.fault.name for i in plan.injections if callable(getattr(i.fault, "prepare", None))]:
        raise usage(
            f"{needing[0]} is set up by the parent of the ranks, which is not chaoskit's here",
            "run it with: chaoskit run " + plan.scenario,
        )
    return Planned(dataclasses.replace(plan, notes=(*notes, *plan.notes)), path, item.skip)
