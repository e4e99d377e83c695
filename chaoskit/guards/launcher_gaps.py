"""What a launcher would have to provide for a profile, and does not. Pure: variables in, lines out.

A guard that lives in the launcher (``group_kill``) is a rule that the launcher has to follow, or a service
that it has to run (``store_outside``); which of them a given launcher follows by itself is known here, as
observed or as documented.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from chaoskit.guards.sidecar import identity
from chaoskit.model import Guard, Profile

LauncherName = Literal["torchrun", "srun", "mpirun", "kubernetes", "none"]

_BY_VARIABLE: tuple[tuple[str, LauncherName], ...] = (
    ("TORCHELASTIC_RUN_ID", "torchrun"),  # first: torchrun may itself have been started by one of the others
    ("OMPI_COMM_WORLD_RANK", "mpirun"),
    ("PMI_RANK", "mpirun"),
    ("SLURM_PROCID", "srun"),
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
)
_RULES: tuple[tuple[str, str, str], ...] = (
    ("on_failure", "group_kill.on_failure", "on_failure"),
    ("on_early_exit", "group_kill.on_early_exit", "early_exit_wait_s"),
    ("on_stopped", "group_kill.on_stopped", "stopped_wait_s"),
    ("host_silent_s", "group_kill.host_silent", "silent_s"),
)
"""A rule of group_kill, its name, and the setting of the sidecar that does the same."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """What a launcher does by itself when a rank ends badly, or a host does not answer."""

    name: LauncherName
    shown: str
    kills_on_failure: bool
    note: str = ""
    kills_on_silence: bool = False


LAUNCHERS: dict[LauncherName, Launcher] = {
    "torchrun": Launcher("torchrun", "torchrun", True, "SIGTERM, SIGKILL 30 s later"),
    "srun": Launcher("srun", "srun", False, "does it with --kill-on-bad-exit=1", kills_on_silence=True),
    "mpirun": Launcher("mpirun", "mpirun", True, "mpirun ends the job when a process fails"),
    "kubernetes": Launcher("kubernetes", "Kubernetes", False, "each pod ends alone"),
    "none": Launcher("none", "none that is known", False),
}


def launcher_of(env: Mapping[str, str]) -> Launcher:
    """Return what started this process, as far as its variables tell."""
    name: LauncherName = next((name for variable, name in _BY_VARIABLE if variable in env), "none")
    found = LAUNCHERS[name]
    if name == "srun" and env.get("SLURM_KILL_BAD_EXIT") == "1":
        return dataclasses.replace(found, kills_on_failure=True)
    return found


def gaps(profile: Profile, env: Mapping[str, str], *, kept: bool) -> list[str]:
    """Return one line for each thing that the profile asks of the launcher and that this one does not do.
    ``kept``: this process has a keeper, so that the guard ``sidecar`` is in effect."""
    launcher = launcher_of(env)
    sidecar = profile.guard("sidecar")
    lines = [
        line
        for guard in profile.guards
        if guard.lives_in in ("launcher", "scheduler") and not (guard.serves_store and _needs_no_store(env))
        for line in _of_guard(guard, launcher, sidecar if kept else None)
    ]
    if sidecar is not None and not kept:
        lines.append(
            "guard sidecar is not in effect: no keeper runs beside this process; "
            "start it with `python -m chaoskit.guards --profile … train.py`"
        )
    return lines


def _of_guard(guard: Guard, launcher: Launcher, sidecar: Guard | None) -> list[str]:
    by = f"not provided by this launcher ({launcher.shown}): "
    if guard.serves_store:
        return [
            f"{by}{guard.name}; run `python -m chaoskit.guards.store_outside` on a host without ranks, "
            "and give them the variables that it says"
        ]
    if guard.name != "group_kill":
        return [f"{by}{guard.name}"]
    wanted = [rule for rule in _RULES if getattr(guard, rule[0]) and not _does(launcher, rule[0])]
    done = [name for _, name, instead in wanted if sidecar is not None and getattr(sidecar, instead)]
    missing = [name for _, name, _ in wanted if name not in done]
    lines = [f"{by}{', '.join(done)}; the sidecar guard does that instead"] if done else []
    if missing:
        hint = "the sidecar guard can do that" if sidecar is None else "see the settings of the sidecar guard"
        note = f" ({launcher.note})" if launcher.note and missing[0].endswith("on_failure") else ""
        lines.append(f"{by}{', '.join(missing)}{note}; {hint}")
    return lines


def _does(launcher: Launcher, rule: str) -> bool:
    return (rule == "on_failure" and launcher.kills_on_failure) or (
        rule == "host_silent_s" and launcher.kills_on_silence
    )


def _needs_no_store(env: Mapping[str, str]) -> bool:
    """Return whether all ranks are on one host, or are clients of a store already (torchrun's
    agent has one)."""
    return env.get("TORCHELASTIC_USE_AGENT_STORE") == "True" or identity(env).this_host_only
