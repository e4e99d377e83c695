"""Guards in a user's own script, by two lines or by the wrapper, without chaoskit's runner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from guards.job import start

from chaoskit import guards
from chaoskit.errors import InvalidInput
from chaoskit.guards.progress_watchdog import ProgressWatchdog

SCRIPT = """\
import sys
import torch.distributed as dist

dist.init_process_group("gloo")
print(sys.argv[1:], __name__, "pydantic" in sys.modules or "ruamel" in sys.modules or "click" in sys.modules)
raise ValueError("own")
"""


@pytest.mark.parametrize(
    "profile", ["recommended", "strict", "folklore", "torchrun-policy", "torch-defaults"]
)
def test_a_healthy_ddp_job_completes_under_every_profile(profile: str) -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(5):
            model(torch.ones(2, 8)).sum().backward()
            optimizer.step()
        print(len(list(model.parameters())))
        del model, optimizer
        dist.destroy_process_group()

    for ended in start(run, profile=profile).wait(20):
        assert (ended.code, ended.out) == (0, "2\n"), ended.err


def run_wrapper(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    root = Path(guards.__file__).parents[2]
    everything = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", **env}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "chaoskit.guards", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=everything,
    )


def test_the_wrapper_runs_the_script_as_main_with_guards_armed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    env = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    ended = run_wrapper("--profile", "recommended", str(script), "--epochs", "3", **env)
    assert ended.returncode == 1
    assert ended.stdout == "['--epochs', '3'] __main__ False\n"
    assert "ValueError: own" in ended.stderr
    assert "guard fail_fast: rank 0: ValueError: own left the script" in ended.stderr


@pytest.mark.parametrize("arguments", [(), ("--profile",), ("--profile", "recomended", "x.py")])
def test_wrong_usage_of_the_wrapper_exits_64(arguments: tuple[str, ...]) -> None:
    ended = run_wrapper(*arguments)
    assert ended.returncode == 64
    assert "Traceback" not in ended.stderr


def test_nothing_to_install_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="needs a profile or guards"):
        guards.install()


def test_installed_after_forming_the_watchdog_follows_steps_alone() -> None:
    def run() -> None:
        dist.init_process_group("gloo")
        guards.install(guards=[ProgressWatchdog(timeout_s=5)])
        dist.barrier()
        dist.destroy_process_group()

    first, second = start(run).wait()
    assert (first.code, second.code) == (0, 0), first.err
    assert "progress=steps)" in first.err
