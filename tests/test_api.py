"""``chaoskit.run``: from Python it is the same as from a file."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

import pytest
from real_runs import Heard, last

import chaoskit
from chaoskit.errors import InvalidInput
from chaoskit.faults.kill import Kill
from chaoskit.guards.group_kill import GroupKill
from chaoskit.model import (
    Arm,
    Backend,
    Culprit,
    Expectation,
    Injection,
    Kind,
    Outcome,
    Phase,
    Profile,
    Scenario,
    Span,
    Status,
    Topology,
    Trigger,
    Workload,
)
from chaoskit.plan import make_plan
from chaoskit.scenario import load, load_profile

pytestmark = pytest.mark.timeout(300)

YAML = """\
name: killed
summary: A rank dies.
family: process
workload: all-reduce-loop
topology: {ranks: 3, backend: gloo}
faults:
  - kill: {rank: 1, signal: SIGKILL}
    when: {op: all_reduce, nth: 4, phase: during}
arms:
  control:
    profile: torch-defaults
    expect: {outcome: failed}
  hardened:
    profile: strict
    expect: {outcome: failed, within: 30s, exit: nonzero, culprits: [rank 1], kind: killed}
"""
FAILED: tuple[tuple[Backend, Outcome], ...] = (("gloo", Outcome.FAILED), ("nccl", Outcome.FAILED))
BUILT = Scenario(
    name="killed",
    summary="A rank dies.",
    family="process",
    workload=Workload("all-reduce-loop"),
    topology=Topology(3),
    injections=(
        Injection(Kill((1,), "SIGKILL"), Trigger("collective", "all_reduce", 4, phase=Phase.DURING)),
    ),
    arms=(
        Arm("control", "torch-defaults", Expectation(FAILED)),
        Arm(
            "hardened",
            "strict",
            Expectation(FAILED, Span(30.0), "nonzero", culprits=(Culprit("rank", "1"),), kind=Kind.KILLED),
        ),
    ),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "killed.yaml"
    path.write_text(YAML)
    return path


def test_objects_and_a_file_give_the_same_scenario_and_the_same_plans(file: Path) -> None:
    (read,) = load([file])
    assert dataclasses.replace(read, file="") == BUILT
    strict, bare = load_profile("strict"), load_profile("torch-defaults")
    for arm, profile in (("control", bare), ("hardened", strict)):
        plans = [
            make_plan(scenario, arm, profile=profile, hardened_profile=strict, seed=3)
            for scenario in (read, BUILT)
        ]
        assert dataclasses.replace(plans[0], rerun="") == dataclasses.replace(plans[1], rerun="")


@pytest.mark.parametrize(
    "name", ["../../escape", "..", "a/b", "nul\0x", "sur\ud800", "\x1b[31mred", "x" * 5000]
)
def test_names_that_are_no_folders_are_refused_all_at_once(name: str, tmp_path: Path) -> None:
    arms = (dataclasses.replace(BUILT.arms[0], name=name), *BUILT.arms[1:])
    with pytest.raises(InvalidInput) as raised:
        chaoskit.run(dataclasses.replace(BUILT, name=name, arms=arms), runs_dir=tmp_path / "runs")
    assert len(raised.value.problems) == 2
    str(raised.value).encode()
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("shared_servers")
def test_objects_and_a_file_run_alike(file: Path, tmp_path: Path) -> None:
    found = [chaoskit.run(meant, runs_dir=tmp_path / "runs", seed=3) for meant in (BUILT, file, str(file))]
    for verdicts in found:
        assert [(v.arm, v.status, v.outcome) for v in verdicts] == [
            ("control", Status.PASS, Outcome.FAILED),
            ("hardened", Status.PASS, Outcome.FAILED),
        ]
        assert {v.culprits for v in verdicts} == {(Culprit("rank", "1"),)}
        assert {len(v.ranks) for v in verdicts} == {3}


@pytest.mark.usefixtures("shared_servers")
def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    mine = Profile("mine", guards=(GroupKill(),))
    written = tmp_path / "mine.yaml"
    written.write_text("name: mine\nsummary: ours\nguards:\n  group_kill: {}\n")
    for profile, name in ((mine, "mine"), (written, "mine"), ("torchrun-policy", "torchrun-policy")):
        verdicts = chaoskit.run(BUILT, profile=profile, runs_dir=tmp_path / "runs")
        assert {v.arm: v.profile for v in verdicts} == {"control": "torch-defaults", "hardened": name}
        assert {v.status for v in verdicts} == {Status.PASS}


@pytest.mark.usefixtures("shared_servers")
def test_a_library_name_and_all_the_choices(tmp_path: Path) -> None:
    heard = Heard()
    verdicts = chaoskit.run(
        "rank-killed-mid-all-reduce", repeat=2, seed=9, ranks=3, jobs=1, timeout_s=20, time_scale=0.05,
        runs_dir=tmp_path / "mine", observer=heard,
    )  # fmt: skip
    assert [(v.arm, v.repeat) for v in last(verdicts)] == [
        ("control", 1), ("hardened", 1), ("control", 2), ("hardened", 2),
    ]  # fmt: skip
    assert {len(v.ranks) for v in verdicts} == {3}
    assert heard.run_dir is not None
    assert heard.run_dir.parent == tmp_path / "mine"
    assert all("--ranks 3" in v.rerun and "--time-scale 0.05" in v.rerun for v in verdicts)


def test_wrong_arguments_are_told_with_all_their_problems(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="rank-killed-mid-all-reduce"):
        chaoskit.run("rank-killed-mid-all-reduc", runs_dir=tmp_path)
    with pytest.raises(InvalidInput, match="strict"):
        chaoskit.run(BUILT, profile="stric", runs_dir=tmp_path)
    with pytest.raises(InvalidInput) as raised:
        chaoskit.run(BUILT, ranks=1, runs_dir=tmp_path)
    assert "rank 1 does not exist" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("shared_servers")
def test_an_interrupt_ends_all_and_is_told(tmp_path: Path) -> None:
    heard = Heard(on_start=lambda _: os.kill(os.getpid(), signal.SIGINT))
    verdicts = chaoskit.run("rank-stopped", runs_dir=tmp_path / "runs", observer=heard)
    assert verdicts
    assert {v.status for v in verdicts} == {Status.INCONCLUSIVE}
    assert all("interrupted" in v.reason for v in verdicts)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
