"""What the user chose for a run, and the command that runs one of its arms again just so. Pure."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from chaoskit.model import Arm, Backend, GpuSharing, Launcher, Profile, Scenario, Workload
from chaoskit.request import WATCH
from chaoskit.scenario.checks import CONTROL
from chaoskit.scenario.listing import in_library

DEFAULTS = "torch-defaults"


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user chose for this run, where it differs from the file."""

    backend: Backend
    seed: int
    ranks: int | None = None
    time_scale: float | None = None
    timeout_s: float | None = None
    profile: str = ""  # replaces the hardened arm's
    launcher: Launcher = "forkserver"
    stall_s: float | None = None
    gpu_sharing: GpuSharing | None = None


def same(profile: Profile, name_or_file: str) -> bool:
    return name_or_file in (profile.name, profile.file)


def replaced(scenario: Scenario, arm: Arm, profile: Profile, tested: Profile) -> str:
    """The profile that took the place of the file's own, as the command line names it; or an empty text."""
    for one in (tested, profile) if arm.name != CONTROL else (tested,):
        if not any(same(one, a.profile) for a in scenario.arms):
            return one.name if not one.file or _is_built_in(one) else os.path.abspath(one.file)
    return ""


def _is_built_in(profile: Profile) -> bool:
    from chaoskit.scenario.profile_file import BUILT_IN, profile_names

    return profile.name in profile_names() and profile.file == str(BUILT_IN / f"{profile.name}.yaml")


def rerun_text(scenario: Scenario, arm: Arm, chosen: Choices) -> str:
    """Return the command that runs this arm again just so."""
    if scenario.name == WATCH:
        return _watch_again(scenario, arm, chosen)
    if chosen.launcher == "command" and scenario.workload.kind in ("script", "module"):
        return _plan_again(scenario, arm, chosen)
    outside = scenario.file and not in_library(scenario.file)
    name = os.path.abspath(scenario.file) if outside else scenario.name
    words = ["chaoskit", "run", name, "--arm", arm.name, "--seed", str(chosen.seed)]
    if chosen.backend != scenario.topology.backend:
        words += ["--backend", chosen.backend]
    if chosen.ranks is not None:
        words += ["--ranks", str(chosen.ranks)]
    if chosen.gpu_sharing is not None:
        words += ["--gpu-sharing", chosen.gpu_sharing]
    if chosen.profile:
        words += ["--profile", chosen.profile]
    if chosen.time_scale is not None:
        words += ["--time-scale", f"{chosen.time_scale:.12g}"]
    if chosen.timeout_s is not None:
        words += ["--timeout", f"{chosen.timeout_s:.12g}s"]
    return shlex.join(words + _program_words(scenario.workload, chosen))


def _watch_again(scenario: Scenario, arm: Arm, chosen: Choices) -> str:
    program = scenario.workload
    named = {"script": [program.target], "module": ["-m", program.target]}.get(program.kind, [])
    words = ["chaoskit", "watch", *named, "--ranks", str(scenario.topology.ranks)]
    if arm.profile != DEFAULTS:
        words += ["--profile", chosen.profile or arm.profile]
    if chosen.launcher == "torchrun":
        words += ["--launcher", "torchrun"]
    if chosen.stall_s is not None:
        words += ["--within", f"{chosen.stall_s:.12g}s"]
    if chosen.timeout_s is not None:
        words += ["--timeout", f"{chosen.timeout_s:.12g}s"]
    return shlex.join([*words, "--", *program.args] if program.args else words)


def _plan_again(scenario: Scenario, arm: Arm, chosen: Choices) -> str:
    """Its ranks were started by hand: what can be had again is the plan."""
    program = scenario.workload
    words = ["chaoskit", "plan", scenario.name, "--arm", arm.name, "--seed", str(chosen.seed)]
    words += [f"--{program.kind}", program.target, "--output", "plan.json"]
    return shlex.join([*words, "--", *program.args] if program.args else words)


def _program_words(program: Workload, chosen: Choices) -> list[str]:
    """The options that name a user's program, its launcher, and last its arguments."""
    words = ["--within", f"{chosen.stall_s:.12g}s"] if chosen.stall_s is not None else []
    if chosen.launcher != "forkserver":
        words += ["--launcher", chosen.launcher]
    if program.kind in ("script", "module"):
        words += [f"--{program.kind}", program.target]
    return words if program.is_built_in else [*words, "--", *program.args]
