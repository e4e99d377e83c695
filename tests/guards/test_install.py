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
from chaoskit.guards import program
from chaoskit.guards.progress_watchdog import ProgressWatchdog

pytestmark = pytest.mark.timeout(300)  # each start imports torch

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

    for ended in start(run, profile=profile).wait():
        assert (ended.code, ended.out) == (0, "2\n"), ended.err


def run_wrapper(*arguments: str, folder: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    root = Path(guards.__file__).parents[2]
    everything = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", **env}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "chaoskit.guards", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env=everything,
        cwd=folder,
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


def run_bare(tmp_path: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of that text without any guard: nothing needs torch."""
    script = tmp_path / "train.py"
    script.write_text(text)
    return run_wrapper("--profile", "torch-defaults", str(script), *arguments)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("print(1)", 0, ""),
        ("import sys; sys.exit(5)", 5, ""),
        ("import sys; sys.exit('no data')", 1, "no data\n"),
        ("import os; os.chdir('/'); print(__file__)", 0, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, ""),
    ],
)
def test_a_script_ends_as_it_would_without_the_wrapper(
    tmp_path: Path, text: str, code: int, says: str
) -> None:
    ended = run_bare(tmp_path, text)
    assert (ended.returncode, ended.stderr) == (code, says)


def test_a_traceback_begins_in_the_script(tmp_path: Path) -> None:
    ended = run_bare(tmp_path, "def f():\n    raise KeyError('x')\nf()\n")
    assert ended.returncode == 1
    lines = ended.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert f'File "{tmp_path}/train.py", line 3, in <module>' in lines[1]
    assert lines[-1] == "KeyError: 'x'"


def test_a_syntax_error_is_told_as_python_tells_it(tmp_path: Path) -> None:
    ended = run_bare(tmp_path, "def f(:\n")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f'  File "{tmp_path}/train.py", line 1')
    assert "SyntaxError" in ended.stderr


def test_a_module_is_run_as_python_m_does(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "train.py").write_text("import sys; print(__name__, __package__, sys.argv[1:])")
    ended = run_wrapper("--profile", "torch-defaults", "-m", "pkg.train", "--lr", "1", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "__main__ pkg ['--lr', '1']\n"), ended.stderr


def test_what_the_script_leaves_to_finalization_is_done(tmp_path: Path) -> None:
    text = "import atexit, threading, time\natexit.register(print, 'atexit')\n"
    text += "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
    assert run_bare(tmp_path, text).stdout == "thread\natexit\n"


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("import sys; sys.exit()", True),
        ("import sys; sys.exit(0)", True),
        ("import sys; sys.exit(1)", False),
        ("import sys\ndef f(): sys.exit(0)\nf()", False),
        ("import unittest; unittest.main(argv=['x', '-q'])", True),
        ("import sys\ntry: 1 / 0\nexcept Exception: sys.exit(0)", False),
        ("try: 1 / 0\nexcept Exception: exit()", False),
        ("import sys\ntry: 1 / 0\nexcept Exception: pass\nsys.exit(0)", True),
        ("import click\nclick.Command('x', callback=lambda: None)(args=[])", True),
    ],
)
def test_a_way_out_that_means_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, done: bool
) -> None:
    script = tmp_path / "train.py"
    script.write_text(text)
    for name in ("argv", "path"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    with pytest.raises(SystemExit) as leaving:
        program.run_script(str(script), [])
    assert program.is_done(leaving.value) is done


@pytest.mark.parametrize(
    "arguments",
    [(), ("--profile",), ("--profile", "recomended", __file__), ("missing.py",), ("-m",), ("--no", "x.py")],
)
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
        guards.install(guards=[ProgressWatchdog(timeout_s=30)])
        dist.barrier()
        dist.destroy_process_group()

    first, second = start(run).wait()
    assert (first.code, second.code) == (0, 0), first.err
    assert "progress=steps)" in first.err
