"""Scenario and arm and seed → Plan: everything of one arm resolved before anything runs.

Pure: the same inputs give the same plan, and the only randomness comes from the seed. Durations that
follow a timeout become seconds by the timeouts of the hardened profile, in every arm: the fault and
the bound are then the same in all of them.
"""

from __future__ import annotations

import dataclasses
import math
import random

from chaoskit import launched, workloads
from chaoskit.errors import InvalidInput, usage
from chaoskit.faults import RankFault
from chaoskit.gpu.sharing import Placement, overridden
from chaoskit.model import (
    Arm,
    Backend,
    Contract,
    GpuSharing,
    Injection,
    Launcher,
    Plan,
    Profile,
    RankPlan,
    Scenario,
    Timeouts,
    Topology,
    Workload,
)
from chaoskit.network import STORE_HOST, Network, plan_network
from chaoskit.profiles.variables import lookup
from chaoskit.rerun import Choices, rerun_text, same
from chaoskit.scenario.checks import CONTROL, check_ranks, hardened_arm
from chaoskit.scenario.profile_file import load_profile

AUTO_COLLECTIVE_S: dict[Backend, float] = {"gloo": 3.0, "nccl": 10.0}
"""What the automatic time scale makes of the hardened profile's collective timeout. Under NCCL the first
operations load kernels, and ranks may take turns on one GPU: that has not been measured, so there is room."""
GPU_START_S = 60.0
"""More time to start where ranks make CUDA contexts and NCCL communicators. Not measured either."""
PACES = 3.0
"""The shortened collective timeout of a user's program is at least this many times its own pace."""
STARTS = 4.0
"""What bounds the start of a user's program is at least this many times what its start was seen to take."""
START_FLOOR_S = 30.0
"""Four interpreters that load torch side by side on two cores came up to 10 s apart."""
FEW_RANKS, RANK_START_S = 4, 0.5
"""Ranks that are forked start within the shortened timeouts, up to so many; each more may take so long. On a
loaded machine with two cores, the last of 16 came more than 3 s after the first."""
_START_FIELDS = ("init_s", "store_s", "wait_s", "start_s", "gil_wait_s")
"""Fields of guards (timeouts, census, watchdogs, sidecar) that bound the start of a rank."""
STALL_S = 60.0
"""How long a user's program may go without any progress on the way to its fault, unless the user says so."""
START_LIMIT_S = 30.0
"""Time to start and reach the injection on a loaded machine, beyond what the scenario itself waits."""
MARGIN_S, MARGIN_SHARE = 1.5, 0.25
PORTS = range(15_000, 32_000)  # below the kernel's own choices (ip_local_port_range)
ADDRESS = "127.0.0.1"
_WORLD = ("RANK", "WORLD_SIZE")


def make_plan(
    scenario: Scenario,
    arm: Arm | str,
    *,
    profile: Profile,
    hardened_profile: Profile,
    seed: int,
    backend: Backend | None = None,
    repeat: int = 1,
    attempt: int = 1,
    ranks: int | None = None,
    time_scale: float | None = None,
    timeout_s: float | None = None,
    master_port: int | None = None,
    launcher: Launcher | None = None,
    stall_s: float | None = None,
    pace_s: float = 0.0,
    started_s: float = 0.0,
    notes: tuple[str, ...] = (),
    gpu_sharing: GpuSharing | None = None,
    placement: Placement | None = None,
    program: Workload | None = None,
) -> Plan:
    """Return the plan of one arm.

    ``profile`` is the arm's, ``hardened_profile`` the one under test, by whose timeouts durations and bounds
    are reckoned; timeouts that it does not set are taken from the profile that the file hardens with.
    ``time_scale`` None is *auto*. ``timeout_s`` bounds the arm. ``launcher`` None is the one that fits the
    workload. ``stall_s`` is the time without progress that a user's program may take to its fault,
    ``pace_s`` the longest that it was seen to take, undisturbed, from one sign of progress to the next,
    ``started_s`` to the first of them, ``notes`` what was changed to fit it. ``gpu_sharing`` is the user's
    choice, ``placement`` how the ranks are put on the GPUs that are here. ``program`` is the user's, where
    one has taken the place of the workload. Raises InvalidInput where the scenario cannot be run with so
    many ranks.
    """
    arm = _arm(scenario, arm)
    chosen = Choices(
        backend or scenario.topology.backend,
        seed,
        ranks,
        time_scale,
        timeout_s,
        launcher or launcher_of(scenario.workload),
        stall_s,
        gpu_sharing,
        program,
    )
    scenario = _resized(scenario, chosen)
    production = _timeouts(scenario, hardened_profile)
    scale = _time_scale(time_scale, production, pace_s, chosen.backend)
    start_s = max(_start_floor_s(scenario, chosen), STARTS * started_s)
    scaled = _scaled(production, scale, start_s)
    injections = tuple(_resolved(i, scaled) for i in scenario.injections)
    port = master_port if master_port is not None else _port(scenario.name, arm.name, seed)
    network = _network(scenario.topology, profile)
    given = frozenset(name for name, _ in profile.env)
    processes = launched.processes(scenario.topology, injections, port, network, placement, given)
    hardened_contract = _contract(scenario, hardened_arm(scenario) or arm, chosen)
    contract = _contract(scenario, arm, chosen)
    bounding = hardened_contract if arm.name == CONTROL or contract.within is None else contract
    bound_s = bounding.within.seconds(scaled) if bounding.within is not None else None
    start_limit_s = _start_limit_s(scenario, injections) + start_s
    start_limit_s += GPU_START_S if chosen.backend == "nccl" else 0.0
    deadline_s = start_limit_s if bound_s is None else bound_s + max(MARGIN_S, MARGIN_SHARE * bound_s)
    limit_s = math.inf if timeout_s is None else timeout_s
    return Plan(
        scenario=scenario.name,
        arm=arm.name,
        backend=chosen.backend,
        seed=seed,
        repeat=repeat,
        attempt=attempt,
        profile=_for_slow_start(profile, scale, start_s),
        time_scale=scale,
        workload=scenario.workload,
        ranks=processes,
        injections=injections,
        contract=contract,
        hardened_contract=hardened_contract,
        healthy=scenario.healthy,
        bound_s=bound_s,
        production_bound_s=bounding.within.seconds(production) if bounding.within is not None else None,
        deadline_s=min(deadline_s, limit_s),
        start_limit_s=min(start_limit_s, limit_s),
        expected_result=_expected_result(scenario, processes),
        master_port=port,
        gated=chosen.launcher == "forkserver"
        and not any(i.when.kind in ("init", "launch") for i in injections)
        and (network is None or network.store != STORE_HOST),
        rerun=rerun_text(scenario, arm, profile, hardened_profile, _paced(chosen, pace_s, scale)),
        timeout_s=timeout_s,
        stall_s=_stall_s(scenario.workload, chosen),
        launcher=chosen.launcher,
        notes=notes + _gpu_notes(scenario.topology, profile, placement),
        network=network,
        gpu_mib=0 if placement is None else placement.mib,
    )


def _network(topology: Topology, profile: Profile) -> Network | None:
    """The virtual hosts; a guard of the arm's profile may keep the store on one of its own."""
    if not topology.is_virtual:
        return None
    outside = topology.hosts > 1 and any(guard.serves_store for guard in profile.guards)
    return plan_network(topology.hosts, topology.nics, topology.own_name, outside)


def _gpu_notes(topology: Topology, profile: Profile, placement: Placement | None) -> tuple[str, ...]:
    """Which way of sharing a GPU was used, and what of the profile it takes away."""
    if placement is None or placement.way is None:
        return ()
    lost = overridden(placement, profile.env)
    without = f"without effect where ranks share a GPU so: {', '.join(lost)}"
    return (placement.note(topology.hosts, topology.ranks), *([without] if lost else []))


def launcher_of(program: Workload) -> Launcher:
    """Return who starts the ranks of ``program`` unless the user says otherwise."""
    return "command" if program.kind == "command" else "forkserver"


def _stall_s(program: Workload, chosen: Choices) -> float | None:
    """A built-in workload that chaoskit forks is known to reach its fault soon; nothing else is."""
    if program.is_built_in and chosen.launcher == "forkserver":
        return None
    return STALL_S if chosen.stall_s is None else chosen.stall_s


def startup_env(profile: Profile) -> tuple[tuple[str, str], ...]:
    """Return the variables of ``profile`` that must be there when Python starts or torch is imported."""
    return tuple(sorted((k, v) for k, v in profile.env if lookup(k).read_when != "group"))


# ---------------------------------------------------------------- what is meant


def _arm(scenario: Scenario, arm: Arm | str) -> Arm:
    if isinstance(arm, Arm):
        return arm
    found = scenario.arm(arm)
    if found is None:
        raise usage(
            f"{scenario.name} has no arm {arm!r}", f"it has: {', '.join(a.name for a in scenario.arms)}"
        )
    return found


def fixes_world(scenario: Scenario) -> bool:
    """Return whether a scenario fits one number of ranks only: a fault writes RANK or WORLD_SIZE, or a
    contract names hosts, on which other ranks would then be."""
    named = [c for arm in scenario.arms for c in arm.expect.culprits or ()]
    if scenario.topology.is_virtual and any(c.kind != "rank" for c in named):
        return True
    faults = [i.fault for i in scenario.injections if i.fault.name == "environment"]
    return any(key in _WORLD for fault in faults for key, _ in getattr(fault, "set", ()))


def _resized(scenario: Scenario, chosen: Choices) -> Scenario:
    """The scenario with the number of ranks that was chosen."""
    if chosen.ranks is None or chosen.ranks == scenario.topology.ranks:
        return scenario
    topology = dataclasses.replace(scenario.topology, ranks=chosen.ranks)
    resized = dataclasses.replace(scenario, topology=topology)
    if problems := check_ranks(resized):
        named = [
            dataclasses.replace(p, message=f"{scenario.name} with {chosen.ranks} ranks: {p.message}")
            for p in problems
        ]
        raise InvalidInput(named)
    return resized


def _contract(scenario: Scenario, arm: Arm, chosen: Choices) -> Contract:
    """The arm's contract; on a backend that the scenario is not for (it will be skipped) that of its own.

    A control arm of which nothing is recorded on this backend promises nothing: whether it bites is
    seen all the same. So does one under another launcher, which has its own rules for the end of a job
    and its own exit codes.
    """
    backend = chosen.backend
    contract = arm.expect.on(backend)
    if contract is not None and chosen.launcher != "forkserver" and not scenario.healthy:
        if arm.name == CONTROL:
            return Contract(outcome=None)
        contract = dataclasses.replace(contract, exit_codes=())
    if contract is None and arm.name == CONTROL and backend in scenario.backends:
        return Contract(outcome=None)
    if contract is None and backend not in scenario.backends:
        contract = arm.expect.on(scenario.topology.backend)
    if contract is None and arm.name == CONTROL and not arm.expect.outcome:
        return Contract(outcome=None)
    if contract is None:
        raise usage(
            f"{scenario.name}: the arm {arm.name} expects nothing on {backend}", "add its outcome there"
        )
    return contract


# ---------------------------------------------------------------- time


def _timeouts(scenario: Scenario, tested: Profile) -> Timeouts:
    """The production timeouts to follow: the tested profile's; for unset ones, the file's own profile's."""
    own = tested.timeouts
    hardened = hardened_arm(scenario)
    if None not in (own.init_s, own.collective_s, own.store_s) or hardened is None:
        return own
    written = own if same(tested, hardened.profile) else load_profile(hardened.profile).timeouts
    return Timeouts(
        own.init_s if own.init_s is not None else written.init_s,
        own.collective_s if own.collective_s is not None else written.collective_s,
        own.store_s if own.store_s is not None else written.store_s,
    )


def _time_scale(asked: float | None, production: Timeouts, pace_s: float, backend: Backend) -> float:
    if asked is not None:
        return asked
    wanted_s = max(AUTO_COLLECTIVE_S[backend], PACES * pace_s)
    return min(1.0, wanted_s / production.collective_s) if production.collective_s else 1.0


def _paced(chosen: Choices, pace_s: float, scale: float) -> Choices:
    """What to choose to have this again: the automatic scale of a slow program is by what was just seen."""
    if chosen.time_scale is not None or PACES * pace_s <= AUTO_COLLECTIVE_S[chosen.backend]:
        return chosen
    return dataclasses.replace(chosen, time_scale=scale)


def _start_floor_s(scenario: Scenario, chosen: Choices) -> float:
    """What bounds the start of ranks is not shortened below this: they may start apart, be many, or wait for
    a GPU."""
    if not scenario.workload.is_built_in or chosen.launcher != "forkserver" or chosen.backend == "nccl":
        return START_FLOOR_S
    return RANK_START_S * max(0, scenario.topology.ranks - FEW_RANKS)


def _scaled(timeouts: Timeouts, scale: float, floor_s: float) -> Timeouts:
    def scaled(value: float | None, floor_s: float) -> float | None:
        return None if value is None else max(value * scale, min(value, floor_s))

    return Timeouts(
        scaled(timeouts.init_s, floor_s),
        scaled(timeouts.collective_s, 0.0),
        scaled(timeouts.store_s, floor_s),
    )


def _for_slow_start(profile: Profile, scale: float, floor_s: float) -> Profile:
    """The scaled profile; what a guard waits for while ranks start is not shortened below ``floor_s``."""
    guards = []
    for guard, scaled in zip(profile.guards, profile.scaled(scale).guards, strict=True):
        changes = {}
        for name in _START_FIELDS:
            value, floored = getattr(guard, name, None), getattr(scaled, name, None)
            if value is not None and floored is not None:
                changes[name] = max(floored, min(value, floor_s))
        guards.append(dataclasses.replace(scaled, **changes))  # type: ignore[type-var]  # guards are dataclasses
    return dataclasses.replace(profile, guards=tuple(guards))


def _resolved(injection: Injection, timeouts: Timeouts) -> Injection:
    if not isinstance(injection.fault, RankFault):
        return injection
    return dataclasses.replace(injection, fault=injection.fault.resolved(timeouts))


def _start_limit_s(scenario: Scenario, injections: tuple[Injection, ...]) -> float:
    """A generous bound for the way to the injection, or through a whole healthy arm."""
    settings = dict(scenario.workload.settings)
    if scenario.workload.is_built_in and (program := workloads.get(scenario.workload.name)) is not None:
        settings = program.complete(settings)
    steps, step_s = int(settings.get("steps", 20)), float(settings.get("step_s", 0.0))
    limit_s = START_LIMIT_S + steps * step_s
    for injection in injections:
        times = 10 * steps if getattr(injection.fault, "repeats", False) else 1
        limit_s += injection.when.after_s + times * _waits_s(injection)
    return limit_s


def _waits_s(injection: Injection) -> float:
    """The seconds that a fault itself takes each time, where they are known."""
    fields = dataclasses.fields(injection.fault)  # type: ignore[arg-type]  # faults are dataclasses
    values = [getattr(injection.fault, f.name) for f in fields if f.name.endswith("_s")]
    return sum(v for v in values if isinstance(v, (int, float)) and math.isfinite(v))


# ---------------------------------------------------------------- processes


def _port(scenario: str, arm: str, seed: int) -> int:
    return random.Random(f"{seed}/{scenario}/{arm}").choice(PORTS)


def _expected_result(scenario: Scenario, processes: tuple[RankPlan, ...]) -> float | None:
    """The number each rank has to report; None where the launcher lied about the world."""
    ranks = scenario.topology.ranks
    if not scenario.workload.is_built_in:
        return None
    for process in processes:
        told = dict(process.env)
        if told.get("RANK") != str(process.slot) or told.get("WORLD_SIZE") != str(ranks):
            return None
    program = workloads.get(scenario.workload.name)
    return None if program is None else program.expected(dict(scenario.workload.settings), ranks)
