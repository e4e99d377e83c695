"""What a launcher does not provide is listed."""

from __future__ import annotations

import pytest

from chaoskit.guards.group_kill import GroupKill
from chaoskit.guards.launcher_gaps import gaps, launcher_of
from chaoskit.guards.sidecar import Sidecar
from chaoskit.guards.store_outside import StoreOutside
from chaoskit.model import Guard, Profile

ALL = GroupKill(on_failure=True, on_early_exit=True, on_stopped=True)
TORCHRUN = {"TORCHELASTIC_RUN_ID": "1", "SLURM_PROCID": "0"}
SRUN = {"SLURM_PROCID": "0"}


@pytest.mark.parametrize(
    ("env", "name"),
    [
        (TORCHRUN, "torchrun"),
        (SRUN, "srun"),
        ({"OMPI_COMM_WORLD_RANK": "0"}, "mpirun"),
        ({"PMI_RANK": "0"}, "mpirun"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "TORCHELASTIC_RUN_ID": "1"}, "torchrun"),
        ({}, "none"),
    ],
)
def test_a_launcher_is_known_by_its_variables(env: dict[str, str], name: str) -> None:
    assert launcher_of(env).name == name


def test_what_the_sidecar_does_instead_is_said() -> None:
    lines = gaps(Profile("p", guards=(ALL, Sidecar())), TORCHRUN, kept=True)
    assert lines == [
        "not provided by this launcher (torchrun): group_kill.on_early_exit, group_kill.on_stopped; "
        "the sidecar guard does that instead"
    ]


def test_without_a_sidecar_it_is_advised() -> None:
    lines = gaps(Profile("p", guards=(ALL,)), SRUN, kept=False)
    assert lines == [
        "not provided by this launcher (srun): group_kill.on_failure, group_kill.on_early_exit, "
        "group_kill.on_stopped (does it with --kill-on-bad-exit=1); the sidecar guard can do that"
    ]


def test_a_rule_that_the_sidecar_has_turned_off_is_still_missing() -> None:
    profile = Profile("p", guards=(ALL, Sidecar(early_exit_wait_s=0)))
    done, missing = gaps(profile, TORCHRUN, kept=True)
    assert "group_kill.on_stopped; the sidecar guard does that instead" in done
    assert "group_kill.on_early_exit; see the settings of the sidecar guard" in missing


def test_a_sidecar_without_a_keeper_is_named() -> None:
    (line,) = gaps(Profile("p", guards=(Sidecar(),)), {}, kept=False)
    assert "guard sidecar is not in effect" in line
    assert "python -m chaoskit.guards" in line


@pytest.mark.parametrize(
    ("guard", "env"),
    [
        (GroupKill(on_failure=True), TORCHRUN),
        (GroupKill(on_failure=False), {}),
        (GroupKill(), {"SLURM_PROCID": "0", "SLURM_KILL_BAD_EXIT": "1"}),
        (GroupKill(on_failure=False, host_silent_s=300), SRUN),  # Slurm's SlurmdTimeout
        (StoreOutside(), {**SRUN, "TORCHELASTIC_USE_AGENT_STORE": "True"}),
        (StoreOutside(), {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}),
    ],
)
def test_nothing_is_listed_where_the_launcher_does_it_or_nobody_asks(
    guard: Guard, env: dict[str, str]
) -> None:
    assert gaps(Profile("p", guards=(guard,)), env, kept=False) == []


def test_a_store_that_nobody_runs_is_named() -> None:
    (line,) = gaps(Profile("p", guards=(StoreOutside(), Sidecar())), SRUN, kept=True)
    assert line.startswith("not provided by this launcher (srun): store_outside; run `python -m ")


def test_a_silent_host_is_the_sidecars_where_the_launcher_waits_for_good() -> None:
    guards = (GroupKill(on_failure=False, host_silent_s=60), Sidecar())
    (line,) = gaps(Profile("p", guards=guards), TORCHRUN, kept=True)
    assert line.endswith("group_kill.host_silent; the sidecar guard does that instead")
