"""What the user chose for a run, and the command that runs one of its arms again just so. Pure.

A command names scenarios and profiles that some other process can find. What exists in the memory of this one
only is not named: there is then no command, rather than one that does not work.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from chaoskit.model import Arm, Backend, GpuSharing, Launcher, Profile, Scenario, Workload
from chaoskit.request import WATCH
from chaoskit.scenario.checks import CONTROL, hardened_arm
from chaoskit.scenario.listing import in_library
from chaoskit.scenario.profile_file import BUILT_IN, profile_names

DEFAULTS = "torch-defaults"


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user chose for this run, where it differs from the file."""

    backend: Backend
    seed: int
    ranks: int | None = None
    time_scale: float | None = None
    timeout_s: float | None = None
    launcher: Launcher = "forkserver"
    stall_s: float | None = None
    gpu_sharing: GpuSharing | None = None
    program: Workload | None = None  # named by the user, in the place of the file's workload


def same(profile: Profile, name_or_file: str) -> bool:
    """Return whether ``name_or_file``, as an arm gives it, means this very profile."""
    if not profile.file:
        return name_or_file == profile.name
    by_name = _is_built_in(profile) and name_or_file == profile.name
    return by_name or str(Path(name_or_file)) == profile.file


def rerun_text(scenario: Scenario, arm: Arm, profile: Profile, tested: Profile, chosen: Choices) -> str:
    """Return the command that runs this arm again just so; '' where no command can.

    ``profile`` is the arm's, ``tested`` the one by whose timeouts its bounds are reckoned.
    """
    replacing = _replacing(scenario, arm, profile, tested)
    found = None if replacing is None else _named(replacing)
    if found == "":
        return ""
    profiled = [] if found is None else ["--profile", found]
    if chosen.launcher == "command" and scenario.workload.kind != "command":
        words = _plan_again(scenario, arm, chosen)
    elif scenario.name == WATCH:
        words = _watch_again(scenario, chosen)
    else:
        words = _run_again(scenario, arm, chosen)
    return shlex.join([*words, *profiled, *_behind(scenario, chosen)]) if words else ""


def again(words: Sequence[str], backend: Backend, seed: int) -> str:
    """Return the command of those words, on this backend and with this seed."""
    return shlex.join([*words, "--backend", backend, "--seed", str(seed)])


# ---------------------------------------------------------------- the profile


def _replacing(scenario: Scenario, arm: Arm, profile: Profile, tested: Profile) -> Profile | None:
    """The profile that takes the place of the file's own, if one does."""
    if scenario.name == WATCH:
        return None if _is_built_in(profile) and profile.name == DEFAULTS else profile
    hardened = hardened_arm(scenario) or arm
    if arm.name != CONTROL and not _is_found(profile, arm.profile):
        return profile
    own = (hardened.profile,) if arm.name == CONTROL else (hardened.profile, arm.profile)
    return None if any(_is_found(tested, one) for one in own) else tested


def _is_found(profile: Profile, name_or_file: str) -> bool:
    """Whether that name finds the same profile later: not one in memory that is called like a built-in."""
    return same(profile, name_or_file) and bool(profile.file or name_or_file not in profile_names())


def _named(profile: Profile) -> str:
    """How the command line names a profile; '' where it cannot."""
    if not profile.file:
        return ""
    return profile.name if _is_built_in(profile) else os.path.abspath(profile.file)


def _is_built_in(profile: Profile) -> bool:
    return profile.file == str(BUILT_IN / f"{profile.name}.yaml")


# ---------------------------------------------------------------- the commands


def _run_again(scenario: Scenario, arm: Arm, chosen: Choices) -> list[str]:
    if not scenario.file:
        return []
    words = ["chaoskit", "run", named(scenario), *_option("--arm", arm.name)]
    words += ["--seed", str(chosen.seed), *_backend_and_ranks(scenario, chosen)]
    if chosen.gpu_sharing is not None:
        words += ["--gpu-sharing", chosen.gpu_sharing]
    words += _durations(chosen)
    own = "command" if scenario.workload.kind == "command" else "forkserver"
    if chosen.launcher != own or (chosen.program is not None and chosen.program.kind == "command"):
        words += ["--launcher", chosen.launcher]
    return words + _program(chosen.program)


def _watch_again(scenario: Scenario, chosen: Choices) -> list[str]:
    program = scenario.workload
    meant = {"script": [_operand(program.target)], "module": ["-m", program.target]}.get(program.kind, [])
    words = ["chaoskit", "watch", *meant, "--ranks", str(scenario.topology.ranks)]
    words += ["--seed", str(chosen.seed)]
    if chosen.backend != "gloo":
        words += ["--backend", chosen.backend]
    if chosen.launcher == "torchrun":
        words += ["--launcher", "torchrun"]
    return words + _durations(chosen, scaled=False)


def _plan_again(scenario: Scenario, arm: Arm, chosen: Choices) -> list[str]:
    """Its ranks were started by hand: what can be had again is the plan."""
    words = ["chaoskit", "plan"]
    if scenario.name == WATCH:
        words += ["--ranks", str(scenario.topology.ranks), *_program(scenario.workload)]
        words += [] if chosen.backend == "gloo" else ["--backend", chosen.backend]
    elif not scenario.file:
        return []
    else:
        words += [named(scenario), *_option("--arm", arm.name), *_program(chosen.program)]
        words += _backend_and_ranks(scenario, chosen)
    words += ["--seed", str(chosen.seed), *_durations(chosen, scaled=scenario.name != WATCH)]
    return [*words, "--output", "plan.json"]


def named(scenario: Scenario) -> str:
    """Return how a command names a scenario, from any folder; '' for one that is in no file."""
    if not scenario.file:
        return ""
    return scenario.name if in_library(scenario.file) else os.path.abspath(scenario.file)


def _backend_and_ranks(scenario: Scenario, chosen: Choices) -> list[str]:
    words = [] if chosen.backend == scenario.topology.backend else ["--backend", chosen.backend]
    ranks = chosen.ranks
    if ranks is None and chosen.program is not None and chosen.program.kind == "command":
        ranks = scenario.topology.ranks  # a command need not say in its words how many it starts
    return words if ranks is None else [*words, "--ranks", str(ranks)]


def _durations(chosen: Choices, scaled: bool = True) -> list[str]:
    words = []
    if scaled and chosen.time_scale is not None:
        words += ["--time-scale", _number(chosen.time_scale)]
    if chosen.timeout_s is not None:
        words += ["--timeout", f"{_number(chosen.timeout_s)}s"]
    if chosen.stall_s is not None:
        words += ["--within", f"{_number(chosen.stall_s)}s"]
    return words


def _program(program: Workload | None) -> list[str]:
    """The option that names a user's program."""
    if program is None or program.kind not in ("script", "module"):
        return []
    return _option(f"--{program.kind}", program.target)


def _behind(scenario: Scenario, chosen: Choices) -> list[str]:
    """The user's own arguments, last."""
    program = scenario.workload if scenario.name == WATCH else chosen.program
    return ["--", *program.args] if program is not None and program.args else []


def _option(name: str, value: str) -> list[str]:
    """An option, also where its value looks like another."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def _operand(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path


def _number(value: float) -> str:
    """Return ``value`` to its last bit, without an exponent."""
    text = f"{value:g}"
    exact = text if float(text) == value else repr(float(value))
    return format(Decimal(exact), "f")
