"""Puts a program of the user's into the place of a scenario's workload: what it promises, and when it fires.

Pure. A trigger that the program never comes to is moved to the nearest thing that it does, and every such
change is told. Of a program that nobody has seen under the fault the control arm promises nothing; the others
keep what must hold whatever runs: outcome, time, exit and culprits.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from chaoskit import workloads
from chaoskit.faults import RankFault
from chaoskit.faults.wrong_group import WrongGroup
from chaoskit.model import (
    SCRATCH,
    Arm,
    Expectation,
    Injection,
    Phase,
    Scenario,
    Trigger,
    Workload,
)
from chaoskit.scenario.checks import CONTROL, PHASED, SYNC_ONLY
from chaoskit.scenario.survey import DEFAULT_GROUP, Survey

_ANY_FILE: Final = f"{SCRATCH}/*"


class Unfit(Exception):
    """The scenario cannot be had on this program; the text says why."""


def adapt(scenario: Scenario, program: Workload, survey: Survey) -> tuple[Scenario, tuple[str, ...]]:
    """Return ``scenario`` with ``program`` as its workload, and a note for each trigger that was moved.

    Raises Unfit where what goes wrong is part of the workload, or needs what the program does not have.
    """
    if not scenario.healthy and not scenario.injections:
        raise Unfit(f"what goes wrong is part of the workload {scenario.workload.name}")
    notes: list[str] = []
    injections = tuple(_fitted(injection, program, survey, notes) for injection in scenario.injections)
    fitted = dataclasses.replace(
        scenario,
        workload=program,
        injections=injections,
        arms=tuple(_arm(arm, scenario) for arm in scenario.arms),
        known=(),
    )
    return fitted, tuple(dict.fromkeys(notes))


def _arm(arm: Arm, scenario: Scenario) -> Arm:
    if scenario.healthy:
        return arm
    kept = arm.expect
    if arm.name == CONTROL:
        return dataclasses.replace(arm, expect=Expectation(()))
    return dataclasses.replace(
        arm, expect=Expectation(kept.outcome, kept.within, kept.exit, (), kept.culprits)
    )


def _fitted(injection: Injection, program: Workload, survey: Survey, notes: list[str]) -> Injection:
    fault = injection.fault
    path = getattr(fault, "path", "")
    given_scratch = any(SCRATCH in word for word in program.args)
    if isinstance(path, str) and SCRATCH in path and not given_scratch:
        raise Unfit(
            f"{fault.name} acts in the arm's own folder, which the program is not told of: "
            f"give it as {SCRATCH} among its arguments"
        )
    if isinstance(path, str) and path.startswith(f"{SCRATCH}/") and injection.when.kind == "launch":
        raise Unfit(f"its fault leaves {path}, which only the built-in workload looks for")
    if getattr(fault, "needs_loader", False) and not survey.batches:
        raise Unfit(f"{fault.name} needs a DataLoader, and the program uses none")
    when, why = _Fitting(injection, survey, given_scratch).moved()
    if isinstance(fault, WrongGroup):
        others = survey.groups - {when.group}
        if not others:
            raise Unfit(f"{fault.name} needs a second process group, and the program uses one only")
        if fault.to not in others:
            fault = dataclasses.replace(fault, to="")  # the largest that there is
    if when == injection.when:
        return Injection(fault, when)
    notes.append(f"{_short(injection.when)} → {_short(when)}: the program {why}")
    return Injection(fault, when)


def _short(when: Trigger) -> str:
    """Return the moment as a note names it: without the phase of an operation, which does not change."""
    if when.kind != "collective":
        return str(when)
    of = "" if when.group == DEFAULT_GROUP else f" of group {when.group}"
    return f"{when.op} #{when.nth}{of}{f' of step {when.step}' if when.step else ''}"


class _Fitting:
    """Where one injection fires in a program, and why it is not where the file says."""

    def __init__(self, injection: Injection, survey: Survey, given_scratch: bool) -> None:
        self._fault, self._when, self._survey = injection.fault, injection.when, survey
        self._given_scratch = given_scratch
        self._slots = survey.slots if injection.fault.rank == "all" else injection.fault.rank

    def moved(self) -> tuple[Trigger, str]:
        """Return the moment, and why it was moved where it was."""
        when, survey = self._when, self._survey
        match when.kind:
            case "collective":
                return self._collective()
            case "step" if when.step > survey.steps:
                return self._elsewhere(f"does {_times(survey.steps, 'optimizer step')}")
            case "after" if when.after_s >= survey.duration_s > 0:
                half_s = round(survey.duration_s / 2, 3)
                return dataclasses.replace(when, after_s=half_s), f"takes {survey.duration_s:.3g} s"
            case "loader" if when.nth > survey.batches:
                why = f"takes {_times(survey.batches, 'batch', 'batches')}"
                if survey.batches:
                    return dataclasses.replace(when, nth=max(1, survey.batches // 2)), why
                return self._elsewhere(why)
            case "forward" | "backward":
                return self._elsewhere(f"has a model of its own, maybe without {when.module}")
            case "call" if when.call.startswith(f"{workloads.__name__}."):
                return self._elsewhere(f"has no function {when.call.rpartition('.')[2]} of the workload's")
            case "write" if when.path != _ANY_FILE:
                if self._given_scratch and SCRATCH in when.path:
                    return Trigger("write", path=_ANY_FILE), "names its files itself"
                return self._elsewhere(f"may not write {when.path}")
        return when, ""

    def _elsewhere(self, why: str) -> tuple[Trigger, str]:
        """Half-way through the program: by its steps, else its operations, else its time."""
        triggers, survey = self._fault.triggers, self._survey
        if "step" in triggers and survey.steps:
            return Trigger("step", step=max(1, survey.steps // 2)), why
        if "collective" in triggers and (op := self._busiest()):
            return self._half_way(op, self._phase()), why
        if "loader" in triggers and survey.batches:
            return Trigger("loader", nth=max(1, survey.batches // 2), phase=self._phase()), why
        if "after" in triggers and survey.duration_s:
            return Trigger("after", after_s=round(survey.duration_s / 2, 3)), why
        raise Unfit(f"the program {why}, and {self._fault.name} can fire nowhere else in it")

    def _phase(self) -> Phase:
        """As the file says, where the moment that it says has one."""
        if self._when.kind in PHASED and self._when.phase in self._fault.phases:
            return self._when.phase
        return Phase.BEFORE if Phase.BEFORE in self._fault.phases else Phase.AFTER

    # ------------------------------------------------------------ operations

    def _collective(self) -> tuple[Trigger, str]:
        when, survey = self._when, self._survey
        if self._fault.name == "swap":
            return self._before_another()
        count = survey.count(when.op, when.group, self._slots)
        within = survey.count(when.op, when.group, self._slots, when.step) if when.step else count
        if within >= when.nth:
            return when, ""
        if count:
            why = f"issues {when.op} {_times(count, 'time')}"
            if when.step:
                why = f"issues {when.op} {_times(within, 'time')} in step {when.step}"
            nth = when.nth if when.step and count >= when.nth else max(1, count // 2)
            return dataclasses.replace(when, nth=nth, step=0), why
        why = f"issues no {when.op}"
        if when.group != DEFAULT_GROUP and when.group not in survey.groups:
            why = f"has no group {when.group}"
            if in_default := survey.count(when.op, DEFAULT_GROUP, self._slots):
                nth = when.nth if in_default >= when.nth else max(1, in_default // 2)
                return dataclasses.replace(when, group=DEFAULT_GROUP, nth=nth, step=0), why
        op = self._busiest()
        if op:
            return self._half_way(op, when.phase), why
        if self._fault.triggers == {"collective"}:
            raise Unfit(f"the program {why}, and no other that {self._fault.name} could act on")
        return self._elsewhere(why)

    def _busiest(self) -> str:
        with_tensors = isinstance(self._fault, RankFault) and self._fault.needs_tensors
        op = self._survey.busiest(DEFAULT_GROUP, self._slots, with_tensors=with_tensors)
        return "" if op in SYNC_ONLY else op

    def _half_way(self, op: str, phase: Phase) -> Trigger:
        count = self._survey.count(op, DEFAULT_GROUP, self._slots)
        return Trigger("collective", op=op, nth=max(1, count // 2), phase=phase)

    def _before_another(self) -> tuple[Trigger, str]:
        """Two operations change places only where there are two in a row."""
        when = self._when
        turns = list(self._survey.before_another(self._slots))
        if any((t.op, t.group, t.nth) == (when.op, when.group, when.nth) for t in turns) and not when.step:
            return when, ""
        here = [t for t in turns if (t.op, t.group) == (when.op, when.group)] or turns
        if not here:
            raise Unfit("the program never issues two different operations in a row in one group")
        turn = here[len(here) // 2]
        moved = Trigger("collective", turn.op, turn.nth, turn.group, when.phase)
        return moved, f"has no other operation after {_short(when)}"


def _times(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"
