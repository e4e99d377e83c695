"""SIGKILL of ``python -m chaoskit run`` at random moments leaves nothing; Ctrl-C at random moments, too."""

from __future__ import annotations

import os
import random
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_runs import Command, chaoskit, temporary_files

from chaoskit import engine, rundir
from chaoskit.errors import InvalidInput
from chaoskit.model import Status

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("CHAOSKIT_KILLS", "100"))
NAMES = (
    "rank-stopped", "rank-killed-mid-all-reduce", "sigterm-swallowed", "memory-cgroup-exceeded",
    "oom-kept-alive", "master-port-taken", "dtypes-differ", "long-step",
)  # fmt: skip
"""Stopped ranks, swallowed signals, a cgroup, a foreign listener, and what just works."""
FROM_START_S, FROM_ARMS_S = 6.0, 8.0
"""Loading torch takes some seconds, the run after that about ten."""


def wait(command: Command, seconds: float) -> None:
    """Return after so long, or when the process has ended."""
    pidfd = os.pidfd_open(command.process.pid)
    select.select([pidfd], [], [], seconds)
    os.close(pidfd)


def at_a_moment(rng: random.Random, command: Command) -> str:
    """Wait for a random moment: a third while it starts, the rest while arms run."""
    if rng.randrange(3) == 0:
        delay = rng.uniform(0, FROM_START_S)
        wait(command, delay)
        return f"{delay:.3f} s after the start"
    command.wait_until(lambda: any((command.folder / "runs").glob("*/*/*/rank0")))
    delay = rng.uniform(0, FROM_ARMS_S)
    wait(command, delay)
    return f"{delay:.3f} s after the first arm"


def moments(number: int, tmp_path: Path) -> Iterator[tuple[str, Command]]:
    """Send the signal at KILLS random moments and yield each command after it."""
    seed = random.SystemRandom().randrange(1 << 31)
    rng = random.Random(seed)
    for count in range(KILLS):
        folder = tmp_path / str(count)
        folder.mkdir()
        with chaoskit("run", *NAMES, "--format", "json", folder=folder) as command:
            when = at_a_moment(rng, command)
            if command.process.poll() is None:
                os.kill(command.process.pid, number)
                command.process.wait(60)
            yield f"signal {number}, seed {seed}, number {count}, {when}", command


def cgroups() -> set[str]:
    return {str(p) for p in Path("/sys/fs/cgroup").glob("**/chaoskit*")}


def check_judged_again(folder: Path) -> None:
    """What a killed run has left is judged or refused, and what was not finished never passes."""
    for arm in rundir.arm_dirs(folder):
        try:
            verdict = engine.judge_again(arm)
        except InvalidInput:
            assert not (arm / "verdict.json").exists()
            continue
        if not (arm / "verdict.json").exists():
            continue  # killed between the history and the verdict, or in the middle of the history
        assert verdict.status in (Status.PASS, Status.INCONCLUSIVE, Status.FAIL)


def test_a_sigkill_leaves_nothing(tmp_path: Path) -> None:
    for told, command in moments(signal.SIGKILL, tmp_path):
        assert command.left() == [], told
        mine = [c for c in cgroups() if any(str(pid) in c for pid in command.seen)]
        assert mine == [], told
        assert temporary_files(command.folder) == [], told
        check_judged_again(command.folder)


def test_a_sigint_ends_all_and_exits_130(tmp_path: Path) -> None:
    for told, command in moments(signal.SIGINT, tmp_path):
        assert command.all() == [], told
        out, err = command.process.communicate()
        # A KeyboardInterrupt that has passed through exec() makes Python end by SIGINT, whoever caught it.
        assert command.process.returncode in (0, 130, -signal.SIGINT), f"{told}: {err}"
        assert "Traceback" not in err or "chaoskit" not in err, f"{told}: {err}"  # Python's own start has one
        assert temporary_files(command.folder) == [], told
        if command.process.returncode == 130 and out:
            assert '"exit_code": 130' in out, told
        check_judged_again(command.folder)
