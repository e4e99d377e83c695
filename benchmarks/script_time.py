"""One fault over a 4-rank DDP script of a user's: forked by chaoskit, warm and cold, against torchrun.

Every round runs all of them. An arm counts from its start until all its processes are gone; beyond the script
means without what the script itself did, from its process group to the fault. Warm: on a server that has run
an arm before. Under torchrun: the same arm, started by the real torchrun. Plain torchrun: the script ends its
rank 1 itself, without chaoskit. Cold: the whole command `chaoskit run … --script`, with torch's import and
the run without a fault that comes first.

    python benchmarks/script_time.py [ROUNDS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _figures import Budget, end, figure, heading, ratio
from _runs import ArmRun, run

from chaoskit.history import Completed, Injected
from chaoskit.model import Workload
from chaoskit.request import RunRequest
from chaoskit.scenario import load

RANKS, STEP = 4, 5
WARM_ARMS = 6
BUDGET = Budget(0.3, at=99)
SCRIPT = Path(__file__).with_name("_ddp_script.py").resolve()
SCENARIO = f"""
name: rank-dies-at-step-{STEP}
summary: Rank 1 is ended by SIGKILL when step {STEP} is done.
family: process
workload: ddp-train
topology: {{ranks: {RANKS}, backend: gloo}}
faults:
  - kill: {{rank: 1, signal: SIGKILL}}
    when: {{step: {STEP}}}
arms:
  control: {{profile: torch-defaults, expect: {{outcome: failed}}}}
  hardened: {{profile: recommended, expect: {{outcome: failed, within: 2s}}}}
"""


def arms(file: Path, launcher: str, repeat: int) -> list[ArmRun]:
    program = Workload(SCRIPT.name, kind="script", target=str(SCRIPT))
    request = RunRequest(
        tuple(load([file])), arms=("control",), repeat=repeat, jobs=1, seed=1, program=program,
        launcher="torchrun" if launcher == "torchrun" else "forkserver",
    )  # fmt: skip
    with run(request) as (_, found):
        return found


def beyond_s(arm: ArmRun) -> float:
    """The whole arm without the script's own way from its process group to the fault."""
    formed = min(e.t_s for e in arm.history.all(Completed) if e.op == "init")
    fired = arm.history.all(Injected)[0].t_s
    return arm.whole_s - (fired - formed)


def plain_s() -> float:
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "--standalone", str(SCRIPT)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "DIE_AT": str(STEP)}
    start = time.perf_counter()
    ended = subprocess.run([sys.executable, *torchrun], capture_output=True, env=environment)
    if ended.returncode == 0:
        raise SystemExit("the script under torchrun did not fail")
    return time.perf_counter() - start


def cold_s(file: Path, runs: str) -> float:
    command = [sys.executable, "-m", "chaoskit", "run", str(file), "--arm", "control", "--runs-dir", runs]
    start = time.perf_counter()
    subprocess.run([*command, "--script", str(SCRIPT)], capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    heading(f"one fault over a {RANKS}-rank DDP script")
    warm: list[float] = []
    beyond: list[float] = []
    under: list[float] = []
    plain: list[float] = []
    cold: list[float] = []
    with tempfile.TemporaryDirectory(prefix="chaoskit-benchmark-") as folder:
        file = Path(folder, f"rank-dies-at-step-{STEP}.yaml")
        file.write_text(SCENARIO)
        for _ in range(rounds):
            found = arms(file, "forkserver", WARM_ARMS)
            warm += [arm.whole_s for arm in found]
            beyond += [beyond_s(arm) for arm in found]
            under += [arm.whole_s for arm in arms(file, "torchrun", 1)]
            plain.append(plain_s())
            cold.append(cold_s(file, folder))
    kept = [figure("warm, beyond the script's own time", beyond, BUDGET)]
    figure("warm", warm)
    figure("cold: the whole command", cold)
    figure("under torchrun", under)
    figure("plain torchrun, without chaoskit", plain)
    typical = [sorted(warm)[len(warm) // 2]] * rounds
    ratio("plain torchrun against a warm arm", typical, plain)
    ratio("plain torchrun against the cold command", cold, plain)
    end(kept)


if __name__ == "__main__":
    main()
