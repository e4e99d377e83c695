"""One 4-rank arm against torchrun and mp.spawn: the same DDP job, in which rank 1 dies at step 5.

Every round runs all of them, one after the other. Warm: an arm on a server that has run one before, from its
start until all its processes are gone (budget 0.3 s; a gloo rank's death adds no wait). Cold: the whole
command `chaoskit run`, with torch's import. The others: their whole command.

    python benchmarks/arm_time.py [ROUNDS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path

from _ddp_job import DIES, RANKS, STEP
from _figures import Budget, end, figure, heading, ratio
from _runs import run

from chaoskit.request import RunRequest
from chaoskit.scenario import load

BUDGET = Budget(0.3, at=99)
WARM_ARMS = 6
JOB = str(Path(__file__).with_name("_ddp_job.py"))
SCENARIO = f"""
name: rank-dies-at-step-{STEP}
summary: Rank {DIES} is ended by SIGKILL when step {STEP} is done.
family: process
workload: ddp-train
topology: {{ranks: {RANKS}, backend: gloo}}
faults:
  - kill: {{rank: {DIES}, signal: SIGKILL}}
    when: {{step: {STEP}}}
arms:
  control: {{profile: torch-defaults, expect: {{outcome: failed}}}}
  hardened: {{profile: recommended, expect: {{outcome: failed, within: 2s}}}}
"""


def fails_s(command: list[str]) -> float:
    """Seconds of a command that has to end nonzero, as a job with a dead rank does."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    start = time.perf_counter()
    ended = subprocess.run(command, capture_output=True, env=environment)
    taken = time.perf_counter() - start
    if ended.returncode == 0:
        raise SystemExit(f"did not fail: {command}\n{ended.stderr.decode()[-2000:]}")
    return taken


def cold_s(file: Path, runs: str) -> float:
    """Seconds of a whole chaoskit command with one arm. Its exit code is that of the verdict."""
    command = [sys.executable, "-m", "chaoskit", "run", str(file), "--arm", "control", "--runs-dir", runs]
    start = time.perf_counter()
    subprocess.run(command, capture_output=True)
    return time.perf_counter() - start


def warm_s(file: Path, arm: str) -> list[float]:
    with run(RunRequest(tuple(load([file])), arms=(arm,), repeat=WARM_ARMS + 1, jobs=1, seed=1)) as (_, arms):
        return [a.whole_s for a in arms[1:]]  # the first one warms the server


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    heading(f"one {RANKS}-rank arm in which a rank dies")
    taken: dict[str, list[float]] = {name: [] for name in ("torchrun", "mp.spawn", "cold")}
    warm: dict[str, list[list[float]]] = {"control": [], "hardened": []}
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "--standalone"]
    with tempfile.TemporaryDirectory(prefix="chaoskit-benchmark-") as folder:
        file = Path(folder, f"rank-dies-at-step-{STEP}.yaml")
        file.write_text(SCENARIO)
        for _ in range(rounds):
            taken["torchrun"].append(fails_s([sys.executable, *torchrun, JOB]))
            taken["mp.spawn"].append(fails_s([sys.executable, JOB, "spawn"]))
            taken["cold"].append(cold_s(file, folder))
            for arm, samples in warm.items():
                samples.append(warm_s(file, arm))
    kept = [figure(f"chaoskit, warm, {arm}", [*chain(*samples)], BUDGET) for arm, samples in warm.items()]
    figure("chaoskit, cold: the whole command", taken["cold"])
    figure("torchrun", taken["torchrun"])
    figure("mp.spawn", taken["mp.spawn"])
    typical = [sorted(samples)[len(samples) // 2] for samples in warm["control"]]
    for other in ("torchrun", "mp.spawn", "cold"):
        ratio(f"{other} against a warm arm", typical, taken[other])
    ratio("torchrun against the cold command", taken["cold"], taken["torchrun"])
    end(kept)


if __name__ == "__main__":
    main()
