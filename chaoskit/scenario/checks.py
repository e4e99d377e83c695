"""What is wrong with a scenario as a whole: ranks that do not exist, triggers that never fire, promises
that cannot be kept. Works on the value, so scenarios built in Python are checked like files.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from chaoskit import workloads
from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Arm, Injection, Outcome, Phase, Profile, Scenario, Span, Timeouts
from chaoskit.registry import module_name
from chaoskit.scenario import culprits, network_checks
from chaoskit.scenario.finding import Finding
from chaoskit.scenario.profile_file import load_profile, profile_names
from chaoskit.scenario.source import KeyPath
from chaoskit.scenario.values import Wrong, did_you_mean, folder_name, yaml_key

CONTROL, HARDENED = "control", "hardened"
_CALL_HINT = "write it as torch.save, or __main__.train_step for a function of the script"
SYNC_ONLY = ("monitored_barrier",)
"""Operations that return only when they are done: nothing can be submitted, so there is no *during*."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A scenario as far as its file could be read, so that what is there can be checked all the same.

    ``arm_names`` are all arms that the file names, ``fault_numbers`` the places in the file of the faults
    that could be read, and ``untimed`` those of which it is not known when they fire. ``hosts_known`` is
    False where the file gives a number of hosts that could not be read.
    """

    scenario: Scenario
    complete: bool
    arm_names: tuple[str, ...]
    fault_numbers: tuple[int, ...]
    untimed: frozenset[int] = frozenset()
    hosts_known: bool = True

    @classmethod
    def of(cls, scenario: Scenario) -> Draft:
        """Return the draft of a scenario that is complete."""
        numbers = tuple(range(len(scenario.injections)))
        return cls(scenario, True, tuple(a.name for a in scenario.arms), numbers)


def check(scenario: Scenario) -> list[Problem]:
    """Return all problems of ``scenario``."""
    return check_draft(Draft.of(scenario), lambda _: 0)


def check_draft(draft: Draft, line: Callable[[KeyPath], int]) -> list[Problem]:
    """Return the problems of what is known of a scenario; ``line`` gives the line of a place in its file."""
    scenario = draft.scenario
    profiles, problems = _profiles(scenario, line)
    findings = [
        *_needed_arms(draft),
        *(_arms(scenario) if draft.complete else ()),
        *_control(scenario, profiles),
        *network_checks.topology_findings(scenario.topology, draft.hosts_known),
        *_culprits(draft),
        *_faults(draft),
        *(_spans(scenario, profiles) if draft.complete else ()),
        *_known(scenario),
    ]
    problems += [Problem(f.message, scenario.file, line(f.path), f.hint) for f in findings]
    return sorted(problems, key=lambda p: (p.file, p.line))


def check_ranks(scenario: Scenario) -> list[Problem]:
    """Return the problems that another number of ranks can cause."""
    return [
        Problem(f.message, scenario.file, 0, f.hint)
        for f in (
            *network_checks.topology_findings(scenario.topology),
            *_faults(Draft.of(scenario)),
            *_culprits(Draft.of(scenario)),
        )
    ]


def hardened_arm(scenario: Scenario) -> Arm | None:
    """Return the arm whose contract the control has to break."""
    return scenario.arm(HARDENED) or next((a for a in scenario.arms if a.name != CONTROL), None)


# ---------------------------------------------------------------- arms

_NEEDED_ARMS = {
    CONTROL: "add control: {profile: torch-defaults, expect: {outcome: …}}: it shows the fault unprotected",
    HARDENED: "add hardened: {profile: strict, expect: {outcome: …}}: the contract that has to be kept",
}


def _profiles(scenario: Scenario, line: Callable[[KeyPath], int]) -> tuple[dict[str, Profile], list[Problem]]:
    """Load the profile of each arm, by name of the arm."""
    found: dict[str, Profile] = {}
    problems: list[Problem] = []
    loaded: dict[str, Profile | None] = {}
    for arm in scenario.arms:
        try:
            if arm.profile not in loaded:
                loaded[arm.profile] = None
                loaded[arm.profile] = load_profile(arm.profile)
        except InvalidInput as error:
            place = line(("arms", arm.name, "profile"))
            here = [
                p if p.file else dataclasses.replace(p, file=scenario.file, line=place)
                for p in error.problems
            ]
            problems += here
        profile = loaded[arm.profile]
        if profile is not None:
            found[arm.name] = profile
    return found, problems


def _needed_arms(draft: Draft) -> Iterator[Finding]:
    names = draft.arm_names
    for needed, hint in _NEEDED_ARMS.items():
        if needed not in names:
            similar = difflib.get_close_matches(needed, names, 1)
            path: KeyPath = ("arms", *similar)
            yield Finding(
                path, f"the {needed} arm is missing", f"is {similar[0]} meant?" if similar else hint
            )


def _control(scenario: Scenario, profiles: Mapping[str, Profile]) -> Iterator[Finding]:
    profile = profiles.get(CONTROL)
    if profile is not None and profile.guards:
        message = f"the control arm has guards ({', '.join(g.name for g in profile.guards)})"
        hint = "use torch-defaults; add an arm of another name for this profile"
        yield Finding(("arms", CONTROL, "profile"), message, hint)


def _arms(scenario: Scenario) -> Iterator[Finding]:
    if scenario.topology.backend not in scenario.backends:
        message = f"the topology's backend {scenario.topology.backend} is not among backends"
        yield Finding(("topology", "backend"), message, f"add it to backends: {', '.join(scenario.backends)}")
    for arm in scenario.arms:
        path: KeyPath = ("arms", arm.name)
        try:
            folder_name(arm.name)
        except Wrong as wrong:
            yield Finding(path, f"the name of an arm {wrong.message}", wrong.hint)
        for backend in scenario.backends:
            # What a control does is recorded where it was observed; elsewhere it is only looked at.
            unseen = arm.name == CONTROL and (backend != scenario.topology.backend or not arm.expect.outcome)
            if backend not in dict(arm.expect.outcome) and not unseen:
                hint = f"add its outcome there, or say backends: [{', '.join(dict(arm.expect.outcome))}]"
                message = f"arms.{arm.name} expects nothing on {backend}"
                yield Finding((*path, "expect", "outcome"), message, hint)
        yield from _healthy_arm(scenario, arm)
    if not scenario.healthy and not scenario.injections:
        hint = "add faults, or say healthy: true for a scenario that only has to complete"
        yield Finding(("faults",), "nothing goes wrong in this scenario", hint)


def _healthy_arm(scenario: Scenario, arm: Arm) -> Iterator[Finding]:
    if not scenario.healthy:
        return
    path: KeyPath = ("arms", arm.name, "expect")
    for backend, outcome in arm.expect.outcome:
        if outcome is not Outcome.COMPLETED:
            message = (
                f"a healthy scenario has to complete, but arms.{arm.name} expects {outcome} on {backend}"
            )
            yield Finding(
                (*path, "outcome"), message, "write completed; what a profile does otherwise goes under known"
            )
    if arm.expect.exit == "nonzero" or arm.expect.culprits or arm.expect.kind:
        yield Finding(path, f"a healthy scenario has to complete, but arms.{arm.name} expects a failure")


def _culprits(draft: Draft) -> Iterator[Finding]:
    scenario = draft.scenario
    # A launcher that hands over a wrong world may well name a rank that was never started.
    if any(i.when.kind == "launch" for i in scenario.injections):
        return
    ranks = scenario.topology.ranks
    for arm in scenario.arms:
        path: KeyPath = ("arms", arm.name, "expect")
        for culprit in arm.expect.culprits or ():
            known = draft.hosts_known or culprit.kind == "rank"
            if known and (found := culprits.problem(culprit, scenario.topology)):
                yield Finding((*path, "culprits"), f"arms.{arm.name}: {found[0]}", found[1])
        for rank, _ in arm.expect.exit_codes:
            if rank >= ranks:
                yield Finding(
                    (*path, "exit"),
                    f"arms.{arm.name}: exit names rank {rank}, which does not exist",
                    culprits.there_are(ranks),
                )


# ---------------------------------------------------------------- faults


def _faults(draft: Draft) -> Iterator[Finding]:
    scenario = draft.scenario
    for number, injection in zip(draft.fault_numbers, scenario.injections, strict=True):
        path: KeyPath = ("faults", number)
        where = f"faults[{number}]"
        yield from _targets(injection, scenario, (*path, injection.fault.name, "rank"), where)
        if draft.hosts_known:
            at: KeyPath = (*path, injection.fault.name)
            yield from network_checks.fault_findings(injection, scenario.topology, at, where)
        if number in draft.untimed:
            continue
        yield from _never_fires(injection, scenario, (*path, "when"), where)
        if injection.when.kind == "collective":
            yield from _operation(injection, scenario, (*path, "when"), where)


def _targets(injection: Injection, scenario: Scenario, path: KeyPath, where: str) -> Iterator[Finding]:
    ranks = scenario.topology.ranks
    if injection.fault.rank == "all":
        return
    for rank in injection.fault.rank:
        if not 0 <= rank < ranks:
            yield Finding(
                path, f"{where}.{injection.fault.name}: rank {rank} does not exist", culprits.there_are(ranks)
            )


def _never_fires(injection: Injection, scenario: Scenario, path: KeyPath, where: str) -> Iterator[Finding]:
    """Triggers that the fault cannot be given, or that lie outside the run."""
    fault, when = injection.fault, injection.when
    accepted = _described(fault.triggers)
    if when.kind not in fault.triggers:
        yield Finding(
            path, f"{where}: {fault.name} can never fire at {_KINDS[when.kind]}", f"it accepts {accepted}"
        )
        return
    if when.kind in PHASED and when.phase not in fault.phases:
        phases = ", ".join(p for p in Phase if p in fault.phases)
        yield Finding(
            (*path, "phase"), f"{where}: {fault.name} can never fire {when.phase} it", f"it accepts {phases}"
        )
    if when.kind in PHASED - {"collective"} and when.phase is Phase.DURING:
        message = f"{where}: {_KINDS[when.kind]} has no phase during"
        yield Finding((*path, "phase"), message, "write before or after")
    if when.kind == "call" and not all(part.isidentifier() for part in when.call.split(".")):
        yield Finding((*path, "call"), f"{where}: {when.call!r} is no dotted name", _CALL_HINT)
    elif when.kind == "call" and "." not in when.call:
        yield Finding((*path, "call"), f"{where}: {when.call!r} names no module", _CALL_HINT)
    if when.kind in ("forward", "backward") and not all(when.module.split(".")):
        message = f"{where}: {when.module!r} is no dotted name"
        yield Finding((*path, when.kind), message, "write it as in named_modules(): layer.2")
    if when.kind == "write" and (not when.path or when.path.endswith("/")):
        message = f"{where}: {when.path!r} names no file"
        yield Finding((*path, "write"), message, 'write the pattern of a file, for example "{scratch}/*.pt"')
    if when.nth < 1 or when.step < 0 or when.after_s < 0 or (when.kind == "step" and when.step < 1):
        yield Finding(path, f"{where}: can never fire: steps and calls count from 1, time from 0")
    steps = _steps(scenario)
    if steps is not None and when.step > steps:
        message = f"{where}: step {when.step} never comes: {scenario.workload.name} runs {steps} steps"
        yield Finding((*path, "step"), message, f"choose a step up to {steps}, or set steps in the workload")
    if when.kind == "collective" and when.phase is Phase.DURING:
        yield from _during(injection, scenario, path, where)


def _during(injection: Injection, scenario: Scenario, path: KeyPath, where: str) -> Iterator[Finding]:
    ranks = scenario.topology.ranks
    targets = ranks if injection.fault.rank == "all" else len({r for r in injection.fault.rank if r < ranks})
    if injection.when.op in SYNC_ONLY:
        message = f"{where}: {injection.when.op} has no phase during: it returns only when it is done"
        yield Finding((*path, "phase"), message, "write phase: before")
    if ranks == 1:
        yield Finding(
            (*path, "phase"),
            f"{where}: with a single rank nothing is ever during",
            "set topology.ranks to 2 or more",
        )
    elif targets >= ranks:
        message = f"{where}: every rank is a target, so none is left to hold the operation open"
        yield Finding((*path, "phase"), message, "leave one rank out, or write phase: before")


_KINDS = {
    "collective": "a collective (op)", "step": "a step", "call": "a call", "forward": "a forward",
    "backward": "a backward", "loader": "a batch (loader)", "write": "a write", "init": "init",
    "launch": "launch", "after": "a time (after)",
}  # fmt: skip
PHASED = frozenset({"collective", "call", "forward", "backward", "loader"})
"""The kinds that have a before and an after."""


def _described(kinds: Collection[str]) -> str:
    return ", ".join(text for kind, text in _KINDS.items() if kind in kinds)


def _steps(scenario: Scenario) -> int | None:
    program = workloads.get(scenario.workload.name) if scenario.workload.is_built_in else None
    if program is None:
        return None
    steps = program.complete(dict(scenario.workload.settings)).get("steps")
    return steps if isinstance(steps, int) else None


def _operation(injection: Injection, scenario: Scenario, path: KeyPath, where: str) -> Iterator[Finding]:
    """Operations and groups that the workload does not have, where it says which it has."""
    when, name = injection.when, scenario.workload.name
    if getattr(injection.fault, "needs_tensors", False) and when.op in ("barrier", *SYNC_ONLY):
        yield Finding((*path, "op"), f"{where}: {injection.fault.name} needs tensors, and {when.op} has none")
    ops = workload_ops(name) if scenario.workload.is_built_in else None
    if ops is None:  # a program of the user's: what it calls is seen when it runs
        return
    if when.group not in ops:
        yield Finding(
            (*path, "group"), f"{where}: {name} has no group {when.group!r}", did_you_mean(when.group, ops)
        )
        return
    if when.op not in ops[when.group]:
        elsewhere = [g for g, known in ops.items() if when.op in known]
        hint = f"group: {elsewhere[0]} has it" if elsewhere else did_you_mean(when.op, ops[when.group])
        of = "" if when.group == "default" else f" in group {when.group}"
        yield Finding((*path, "op"), f"{where}: {name} never calls {when.op}{of}", hint)
    members = workload_members(name, when.group, scenario.topology.ranks)
    if members is not None and injection.fault.rank != "all":
        for rank in injection.fault.rank:
            if rank not in members and rank < scenario.topology.ranks:
                have = ", ".join(map(str, members)) or "no rank"
                message = f"{where}: can never fire on rank {rank}: group {when.group} has {have}"
                yield Finding(
                    ("faults", *path[1:2], injection.fault.name, "rank"),
                    message,
                    "choose a rank of the group",
                )


def workload_ops(name: str) -> Mapping[str, Collection[str]] | None:
    """Return the operations by group that the built-in workload ``name`` says it calls (its ``OPS``)."""
    if workloads.get(name) is None:
        return None
    found: Mapping[str, Collection[str]] | None = getattr(_module(name), "OPS", None)
    return found


def workload_members(name: str, group: str, ranks: int) -> Collection[int] | None:
    """Return the ranks of ``group`` where the workload says so (its ``members(group, world_size)``)."""
    members = getattr(_module(name), "members", None)
    found: Collection[int] | None = members(group, ranks) if callable(members) else None
    return found


def _module(name: str) -> object:
    return importlib.import_module(f"{workloads.__name__}.{module_name(name)}")


# ---------------------------------------------------------------- durations, known results


def _spans(scenario: Scenario, profiles: Mapping[str, Profile]) -> Iterator[Finding]:
    """Durations that follow a timeout which the hardened profile does not set."""
    arm = hardened_arm(scenario)
    if arm is None or arm.name not in profiles:
        return
    timeouts = profiles[arm.name].timeouts
    for number, injection in enumerate(scenario.injections):
        for field in dataclasses.fields(injection.fault):  # type: ignore[arg-type]  # faults are dataclasses
            value = getattr(injection.fault, field.name)
            path: KeyPath = ("faults", number, injection.fault.name, yaml_key(field.name))
            yield from _unset(value, timeouts, path, profiles[arm.name].name)
    for one in scenario.arms:
        own = profiles.get(one.name)
        if own is not None and (one.name == arm.name or own.timeouts == Timeouts()):
            yield from _unset(
                one.expect.within, timeouts, ("arms", one.name, "expect", "within"), profiles[arm.name].name
            )


def _unset(value: object, timeouts: Timeouts, path: KeyPath, profile: str) -> Iterator[Finding]:
    if isinstance(value, Span) and value.seconds(timeouts) is None:
        what = f"{path[-1]} follows the {value.timeout} timeout"
        message = f"{what}, which the hardened profile {profile} does not set"
        yield Finding(
            path, message, "write a plain duration, or harden with a profile that has the timeouts guard"
        )


def _known(scenario: Scenario) -> Iterator[Finding]:
    for known in scenario.known:
        if known.profile not in profile_names():
            message = f"known: there is no built-in profile {known.profile!r}"
            yield Finding(("known", known.profile), message, did_you_mean(known.profile, profile_names()))
