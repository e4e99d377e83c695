"""Ranks that chaoskit did not start, on machines that share no folder: a stand-in for srun and for pods.

The stand-in starts the processes and does nothing when one of them dies. Two folders stand for two machines;
that their clocks differ is the business of tests/judge/test_clocks.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from free_ports import free_port

from chaoskit import codec
from chaoskit.cli import main
from chaoskit.judging import judge_again
from chaoskit.model import Culprit, Outcome, Plan, Status
from chaoskit.plan import make_plan
from chaoskit.scenario import load_profile
from chaoskit.scenario import select as chosen

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

RANKS = 4


def plan_of(scenario: str, arm: str) -> Plan:
    strict, bare = load_profile("strict"), load_profile("torch-defaults")
    profile = bare if arm == "control" else strict
    return make_plan(
        chosen([scenario])[0], arm, profile=profile, hardened_profile=strict, seed=3, launcher="command",
        time_scale=0.2,
    )  # fmt: skip


def started(plan: Plan, folder: Path, machine: list[Path], program: tuple[str, ...] = ()) -> list[int]:
    """Start every rank as a launcher would, and return the exit codes it would see."""
    plan_file = folder / "plan.json"
    plan_file.write_text(codec.dump_plan(plan), encoding="utf-8")
    port = free_port()
    ranks = []
    for rank in range(RANKS):
        env = {
            **os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank % 2),
            "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        words = ["-m", "chaoskit.rank", "--plan", str(plan_file), "--dir", str(machine[rank]), *program]
        log = (folder / f"rank{rank}.log").open("wb")
        ranks.append(subprocess.Popen([sys.executable, *words], env=env, stdout=log, stderr=log))
        log.close()
    return [rank.wait(timeout=240) for rank in ranks]


@pytest.fixture
def machines(tmp_path: Path) -> list[Path]:
    """The folder of each rank: ranks 0 and 1 on one machine, 2 and 3 on another."""
    return [tmp_path / "a", tmp_path / "a", tmp_path / "b", tmp_path / "b"]


def test_a_rank_that_dies_is_named_from_the_files_of_all_machines(
    tmp_path: Path, machines: list[Path]
) -> None:
    plan = dataclasses.replace(plan_of("rank-killed-mid-all-reduce", "hardened"), bound_s=60.0)
    codes = started(plan, tmp_path, machines)
    assert codes[1] == -9, "to the launcher the keeper is the rank"
    assert 0 not in codes
    verdict = judge_again(machines[0], machines[2])
    assert (verdict.status, verdict.outcome) == (Status.PASS, Outcome.FAILED), verdict.reason
    assert verdict.culprits == (Culprit("rank", "1"),)
    kept = [path.read_bytes() for m in set(machines) for path in m.glob("rank*/keeper.region")]
    told = sum(b"RunDelay" in text for text in kept)
    assert told == RANKS or not Path("/proc/self/schedstat").exists(), "how long each waited for a core"
    page, trace = tmp_path / "report.html", tmp_path / "trace.json"
    dirs = [str(d) for d in dict.fromkeys(machines)]
    assert main(["report", *dirs, f"--html={page}", f"--trace={trace}"]) == 0
    shown = {e["pid"] for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"}
    assert len(shown) == RANKS, "the trace has the ranks of both machines"
    assert all(f"rank {rank}" in page.read_text() for rank in range(RANKS))


@pytest.mark.nightly
def test_a_machine_whose_files_are_missing_gives_no_verdict(tmp_path: Path, machines: list[Path]) -> None:
    codes = started(plan_of("long-step", "control"), tmp_path, machines)
    assert codes == [0, 0, 0, 0]
    assert judge_again(machines[0]).status is Status.INCONCLUSIVE
    verdict = judge_again(machines[0], machines[2])
    assert (verdict.status, verdict.outcome) == (Status.PASS, Outcome.COMPLETED), verdict.reason


@pytest.mark.nightly
def test_a_program_on_the_command_line_takes_the_place_of_the_plans(
    tmp_path: Path, machines: list[Path]
) -> None:
    script = tmp_path / "own.py"
    script.write_text("import sys; print('own', sys.argv[1:]); sys.exit(3)")
    codes = started(plan_of("long-step", "control"), tmp_path, machines, (str(script), "--x", "1"))
    assert codes == [3, 3, 3, 3]
    assert "own ['--x', '1']" in (tmp_path / "rank2.log").read_text()
