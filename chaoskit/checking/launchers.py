"""What the launcher that is meant does of a profile's launcher guards by itself, and which of its settings
give ranks more time at their end. Pure."""

from __future__ import annotations

from typing import Final

from chaoskit.checking.case import Case
from chaoskit.guards.launcher_gaps import LAUNCHERS, LauncherName, gaps
from chaoskit.model import Guard, Profile
from chaoskit.profiles.variables import VARIABLES

SHUTDOWN: Final = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
_AS_STARTED_BY: Final[dict[LauncherName, dict[str, str]]] = {
    "torchrun": {"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_USE_AGENT_STORE": "True"},
    "srun": {"SLURM_PROCID": "0"},
    "mpirun": {"OMPI_COMM_WORLD_RANK": "0"},
    "kubernetes": {"KUBERNETES_SERVICE_HOST": "x"},
    "none": {},
}
"""By which variables the guards themselves recognise a launcher."""

# sbatch(1): at the time limit each task gets SIGTERM, and after KillWait (slurm.conf) SIGKILL; --signal sends
# a signal that many seconds before the limit. Kubernetes: the pod's specification.
_SLURM: Final = "KillWait in slurm.conf (before a time limit also: --signal=TERM@SECONDS)"
_POD: Final = "terminationGracePeriodSeconds of the pod"


def not_followed(case: Case, guard: Guard, launcher: LauncherName) -> list[str]:
    """Return a line for each thing that the guard asks of the launcher and that this one does not do."""
    alone = Profile("", guards=tuple(g for g in case.subject.guards if g in (guard, case.guard("sidecar"))))
    lines = gaps(alone, _AS_STARTED_BY[launcher], kept=True)
    return lines if guard.lives_in in ("launcher", "scheduler") else []


def carries_out(case: Case, guard: Guard) -> bool:
    """Return whether group_kill's times are kept: by chaoskit's own launcher (no other is named), or by one
    that ends a job as the guard asks."""
    launcher = case.target.launcher
    if launcher is None:
        return True
    return LAUNCHERS[launcher].kills_on_failure and not not_followed(case, guard, launcher)


def reads_shutdown(case: Case) -> bool:
    """Return whether the torchrun of this torch reads TORCH_ELASTIC_SHUTDOWN_TIMEOUT."""
    since, torch = VARIABLES[SHUTDOWN].since, case.target.torch
    return torch is None or since is None or torch >= since


def launcher_knob(case: Case) -> str:
    """Return what is turned to change the time that the launcher gives; '' where nothing does."""
    own = "what the launcher gives between SIGTERM and SIGKILL"
    of_torchrun = f"{SHUTDOWN} in torchrun's environment"
    if case.target.launcher == "torchrun":
        return of_torchrun if reads_shutdown(case) else ""
    return f"{own} (torchrun: {SHUTDOWN})" if case.target.launcher is None and reads_shutdown(case) else own


def scheduler_knob(case: Case) -> str:
    """Return what is turned to change the time that the scheduler gives."""
    match case.target.launcher:
        case "srun":
            return _SLURM
        case "kubernetes":
            return _POD
        case _:
            return "Slurm's KillWait (slurm.conf) or Kubernetes' terminationGracePeriodSeconds"
