"""The wrapper under real torchrun and under a launcher that does nothing, with fresh interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from free_ports import free_port

import chaoskit

SCRIPT = """\
import os, sys, time
import torch, torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(4))
    if len(sys.argv) > 1 and dist.get_rank() == int(sys.argv[1]):
        os.kill(os.getpid(), 9)
    if len(sys.argv) > 1:
        time.sleep(1200)
    dist.destroy_process_group()
    print("rank", os.environ["RANK"], "done", flush=True)

if __name__ == "__main__":
    main()
"""
PROFILE = "name: own\nguards:\n  sidecar: {grace: 60s}\n"
"""The grace is also how long a launcher may take to look who ended, however loaded this machine is."""
LAUNCHER = Path(__file__).with_name("plain_launcher.py")
LIMIT_S = 250.0
"""Three interpreters load torch, one after the other, on a machine that has other things to do."""
pytestmark = pytest.mark.timeout(LIMIT_S + 50)


def launch(folder: Path, launcher: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script with two ranks; return how it ended, long before the script alone would."""
    (folder / "train.py").write_text(SCRIPT)
    (folder / "own.yaml").write_text(PROFILE)
    wrapped = ["-m", "chaoskit.guards", "--profile", "own.yaml", "train.py", *arguments]
    command = (
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *wrapped]
        if launcher == "torchrun"
        else [sys.executable, str(LAUNCHER), "2", str(free_port()), sys.executable, *wrapped]
    )
    root = str(Path(chaoskit.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [pytest.param("plain", marks=pytest.mark.nightly), "torchrun"])
def test_a_killed_rank_ends_the_job_under_a_real_launcher(tmp_path: Path, launcher: str) -> None:
    ended = launch(tmp_path, launcher, "1")
    assert "rank 1 (host " in ended.stderr
    assert "was ended by SIGKILL; ending rank 0 (exit 90)" in ended.stderr
    if launcher == "torchrun":
        assert ended.returncode == 1
        assert "rank      : 1 (local_rank: 1)" in ended.stderr.partition("Root Cause (first observed")[2]
    else:
        assert sorted(ended.stdout.splitlines()) == ["ended 0 90", "ended 1 -9"]
    assert not [p for p in psutil.process_iter() if str(tmp_path) in " ".join(_words(p))]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["plain", "torchrun"])
def test_a_healthy_job_completes_under_a_real_launcher(tmp_path: Path, launcher: str) -> None:
    ended = launch(tmp_path, launcher)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in sorted(ended.stdout.splitlines()) if not line.startswith("ended")]
    assert lines == ["rank 0 done", "rank 1 done"]
    assert ended.stderr.count("chaoskit:") == 1, "only that the guard is armed"


def _words(process: psutil.Process) -> list[str]:
    try:
        return [*process.cmdline(), process.cwd()]
    except psutil.Error:
        return []
