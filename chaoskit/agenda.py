"""What a run has to do: each scenario on a backend with the plans of its arms. Starts nothing.

Whatever keeps a scenario from being run is found here: a capability that is missing, a number of ranks that
does not fit, a program of the user's that its fault cannot be had on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from chaoskit import admission, capabilities
from chaoskit.errors import InvalidInput, Problem, usage
from chaoskit.gpu.sharing import CannotShare, Placement
from chaoskit.judge import scenario_result
from chaoskit.model import (
    Arm,
    Backend,
    Expectation,
    Launcher,
    Outcome,
    Plan,
    Profile,
    Scenario,
    ScenarioResult,
    Topology,
    Verdict,
    Workload,
)
from chaoskit.placing import placement_of
from chaoskit.plan import fixes_world, launcher_of, make_plan
from chaoskit.request import WATCH, WATCH_STALL_S, ArmId, RunRequest, WatchRequest
from chaoskit.rerun import DEFAULTS, again
from chaoskit.scenario import check_ranks, hardened_arm, load_profile
from chaoskit.scenario.adapting import Unfit, adapt
from chaoskit.scenario.survey import Survey

CONTROL = scenario_result.CONTROL


@dataclass(slots=True)
class Item:
    """One scenario on one backend with the arms to run. ``skip``: why it is not run, ``unclear``: why nothing
    can be said of it."""

    scenario: Scenario
    backend: Backend
    plans: dict[ArmId, Plan] = field(default_factory=dict)
    verdicts: dict[ArmId, Verdict] = field(default_factory=dict)
    skip: str = ""
    unclear: str = ""
    program: Workload | None = None  # of the user's
    result: ScenarioResult | None = None

    @property
    def complete(self) -> bool:
        return len(self.verdicts) == len(self.plans)

    def judged(self) -> ScenarioResult:
        ordered = [self.verdicts[key] for key in self.plans if key in self.verdicts]
        contracts = (plan.hardened_contract for plan in self.plans.values())
        completes = any(contract.outcome is Outcome.COMPLETED for contract in contracts)
        return scenario_result.judge(
            self.scenario.name, self.backend, self.scenario.healthy, ordered, completes
        )


def watched(request: WatchRequest) -> Scenario:
    """Return the scenario that stands for a program without any fault."""
    profile = request.profile
    name = DEFAULTS if profile is None else profile.file or profile.name
    expect = Expectation(((request.backend, Outcome.COMPLETED),))
    return Scenario(
        WATCH, "a program as it is", WATCH, request.program, Topology(request.ranks, request.backend),
        injections=(), arms=(Arm(WATCH, name, expect),), backends=(request.backend,), healthy=True,
    )  # fmt: skip


def plan_to_watch(request: WatchRequest, seed: int, port: int | None) -> Plan:
    """Return the plan of the only arm of a watched program. Its profile's durations are not shortened."""
    profile = request.profile or load_profile(DEFAULTS)
    scenario = watched(request)
    launcher = request.launcher or launcher_of(request.program)
    try:
        placement = placement_of(scenario.topology, request.backend, launcher, None, isolated=port is None)
    except CannotShare as why:
        raise usage(f"{request.ranks} ranks cannot be had on nccl here: {why}") from None
    return make_plan(
        scenario, WATCH, profile=profile, hardened_profile=profile, seed=seed, time_scale=1.0,
        timeout_s=request.timeout_s, master_port=port, launcher=request.launcher, stall_s=request.stall_s,
        placement=placement,
    )  # fmt: skip


def plans_of_looks(
    request: RunRequest, items: Iterable[Item], seed: int, isolated: bool
) -> dict[Workload, Plan]:
    """Return the plans by which the users' programs of ``items`` are run once without any fault."""
    programs = {item.program: item for item in items if item.program is not None and not item.skip}
    plans = {}
    for program, item in programs.items():
        asked = WatchRequest(
            program, request.ranks or item.scenario.topology.ranks, request.launcher,
            stall_s=request.stall_s or WATCH_STALL_S, timeout_s=request.timeout_s, backend=item.backend,
        )  # fmt: skip
        plans[program] = plan_to_watch(asked, seed, None if isolated else admission.free_port())
    return plans


class Agenda:
    """Plans the items of a request.

    ``surveys`` is what the users' programs do by themselves, and ``broken`` why one of them cannot be used.
    """

    def __init__(
        self,
        request: RunRequest,
        seed: int,
        isolated: bool,
        surveys: Mapping[Workload, Survey] | None = None,
        broken: Mapping[Workload, str] | None = None,
    ) -> None:
        self._request = request
        self._seed = seed
        self._isolated = isolated
        self._surveys = surveys or {}
        self._broken = broken or {}

    def program(self, scenario: Scenario) -> Workload | None:
        """Return the user's program that takes the place of, or is, the scenario's workload."""
        if self._request.program is not None:
            return self._request.program
        return None if scenario.workload.is_built_in else scenario.workload

    def items(self) -> list[Item]:
        """Raises InvalidInput with everything that cannot be run as asked."""
        items: list[Item] = []
        problems: list[Problem] = []
        for scenario in self._request.scenarios:
            try:
                items.append(self._item(scenario))
            except InvalidInput as error:
                problems += error.problems
        if problems:
            raise InvalidInput(problems)
        if "nccl" in self._request.require and not any(item.backend == "nccl" for item in items):
            raise usage("nothing here runs on nccl, which --require asks for", "add --backend nccl")
        if not any(item.plans for item in items):
            raise usage("nothing to run: no scenario has an arm of that name")
        return items

    def _item(self, scenario: Scenario) -> Item:
        backend = self._request.backend or scenario.topology.backend
        skip = ""
        notes: tuple[str, ...] = ()
        program = self.program(scenario)
        survey = self._surveys.get(program) if program is not None else None
        if self._request.program is not None and survey is not None:
            try:
                scenario, notes = adapt(scenario, self._request.program, survey)
            except Unfit as unfit:
                skip = str(unfit)
                scenario = dataclasses.replace(scenario, workload=self._request.program)
        elif self._request.program is not None:  # not seen yet, or broken: the report names it all the same
            scenario = dataclasses.replace(scenario, workload=self._request.program)
        unclear = self._broken.get(program, "") if program is not None else ""
        item = Item(scenario, backend, skip=skip, unclear=unclear, program=program)
        ranks, unfit_ranks = self._ranks(scenario, backend)
        item.skip = item.skip or unfit_ranks
        placement, unshared = self._placement(scenario, backend, ranks)
        for repeat in range(1, self._request.repeat + 1):
            for arm, plan in self._plans(scenario, backend, repeat, ranks, notes, survey, placement):
                rerun = "" if unfit_ranks else self._again(plan)  # with so many ranks there is no such arm
                item.plans[ArmId(scenario.name, arm, backend, repeat, 1)] = dataclasses.replace(
                    plan, rerun=rerun
                )
        item.skip = item.skip or self._why_not(scenario, backend) or unshared
        return item

    def _ranks(self, scenario: Scenario, backend: Backend) -> tuple[int | None, str]:
        """The number of ranks asked for, and why the scenario cannot be run with it, or an empty text."""
        asked = self._request.ranks
        if asked is None or asked == scenario.topology.ranks:
            return None, ""
        if len(self._request.scenarios) == 1 and not fixes_world(scenario):
            return asked, ""  # what does not fit is then the user's one problem, said in full
        if fixes_world(scenario):
            return None, f"it is written for {scenario.topology.ranks} ranks, not {asked}"
        resized = dataclasses.replace(scenario, topology=dataclasses.replace(scenario.topology, ranks=asked))
        unfit = check_ranks(resized)
        return (None, unfit[0].message) if unfit else (asked, "")

    def _placement(
        self, scenario: Scenario, backend: Backend, ranks: int | None
    ) -> tuple[Placement | None, str]:
        """How the ranks are put on GPUs, and why that cannot be had, or an empty text."""
        topology = dataclasses.replace(scenario.topology, ranks=ranks or scenario.topology.ranks)
        launcher = self._request.launcher or launcher_of(scenario.workload)
        try:
            return placement_of(topology, backend, launcher, self._request.gpu_sharing, self._isolated), ""
        except CannotShare as why:
            return None, str(why)

    def _plans(
        self,
        scenario: Scenario,
        backend: Backend,
        repeat: int,
        ranks: int | None,
        notes: tuple[str, ...],
        survey: Survey | None,
        placement: Placement | None,
    ) -> Iterator[tuple[str, Plan]]:
        request = self._request
        hardened = hardened_arm(scenario)
        if hardened is None:
            raise usage(f"{scenario.name} has no arm besides the control")
        tested = request.profile or self._named(hardened)
        arms: tuple[Arm, ...] = scenario.arms
        if request.profile is not None:
            arms = tuple(a for a in arms if a.name in (CONTROL, hardened.name))
        for arm in arms:
            if request.arms and arm.name not in request.arms:
                continue
            profile = self._profile(arm)
            reference = tested if arm.name in (CONTROL, hardened.name) else profile
            yield (
                arm.name,
                make_plan(
                    scenario,
                    arm,
                    profile=profile,
                    hardened_profile=reference if reference.timeouts.collective_s else tested,
                    backend=backend,
                    seed=self._seed + repeat - 1,
                    repeat=repeat,
                    ranks=ranks,
                    time_scale=request.time_scale,
                    timeout_s=request.timeout_s,
                    master_port=None if self._isolated else admission.free_port(),
                    launcher=request.launcher,
                    stall_s=request.stall_s,
                    pace_s=survey.pace_s if survey is not None else 0.0,
                    started_s=survey.started_s if survey is not None else 0.0,
                    notes=notes,
                    gpu_sharing=request.gpu_sharing,
                    placement=placement,
                    program=request.program,
                ),
            )

    def _again(self, plan: Plan) -> str:
        words = self._request.again.get((plan.scenario, plan.arm))
        return plan.rerun if words is None else again(words, plan.backend, plan.seed)

    def _profile(self, arm: Arm) -> Profile:
        if self._request.profile is not None and arm.name != CONTROL:
            return self._request.profile
        return self._named(arm)

    def _named(self, arm: Arm) -> Profile:
        given = (profile for profile in self._request.profiles if profile.name == arm.profile)
        return next(given, None) or load_profile(arm.profile)

    def _why_not(self, scenario: Scenario, backend: Backend) -> str:
        if backend not in scenario.backends:
            return f"not for {backend} (the file says: {', '.join(scenario.backends)})"
        for name in (*scenario.needs, *(["nccl"] if backend == "nccl" else [])):
            capability = capabilities.find(name)
            if not capability.available:
                remedy = f" (to have it: {capability.remedy})" if capability.remedy else ""
                return f"{name}: {capability.detail}{remedy}"
        return _foreign_launcher(scenario, self._request.launcher or launcher_of(scenario.workload))


def _foreign_launcher(scenario: Scenario, launcher: Launcher) -> str:
    """Why a fault cannot be had where somebody else is the parent of the ranks."""
    if launcher == "forkserver":
        return ""
    if scenario.topology.is_virtual:
        parent = "its own launcher" if launcher == "command" else launcher
        return f"its virtual hosts are made by the parent of the ranks, which {parent} is here"
    for injection in scenario.injections:
        if callable(getattr(injection.fault, "prepare", None)):
            return f"{injection.fault.name} is set up by the parent of the ranks, which {launcher} is here"
    return ""
