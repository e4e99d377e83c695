"""A SIGKILL of the runner, its server, a warden, or runner and warden, at any moment, leaves no process."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaoskit.launchers import kernel

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("nasty_runner.py")
MOMENTS = 6
MOMENTS_NIGHTLY = int(os.environ.get("CHAOSKIT_KILLS", "300"))
SPREAD_S = 0.4
"""An idle machine needs 0.2 s to start the server, and as much for a round of two arms."""
GONE_LIMIT_S = 60.0


def marked(mark: str) -> list[int]:
    """All processes that were started with ``mark`` in their environment; forks of them keep it."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(int(pid))
    return found


def settled(mark: str) -> list[str]:
    """Wait until nothing marked is there in two looks in a row; return what stays too long."""
    until = time.monotonic() + GONE_LIMIT_S
    clean = 0
    while clean < 2:
        left = marked(mark)
        clean = 0 if left else clean + 1
        if left and time.monotonic() > until:
            return [f"{pid} {kernel.state(pid)} {kernel.command(pid)}" for pid in left]
        for pid in left:
            wait_for_end(pid, 0.05)
    return []


def wait_for_end(pid: int, limit_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(pid)
        select.select([pidfd], [], [], limit_s)
        os.close(pidfd)


@contextmanager
def runner(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = {**os.environ, "PYTHONPATH": path, "CHAOSKIT_TEST_MARK": mark}
    process = subprocess.Popen(
        [sys.executable, str(RUNNER)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        yield process


def find(victim: str, runner_pid: int) -> int:
    """Wait until there is such a process; it may be gone again when the signal is sent."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if victim == "runner":
            return runner_pid
        servers = [pid for pid in kernel.children(runner_pid) if "server_main" in kernel.command(pid, 5000)]
        found = servers if victim == "server" else [w for pid in servers for w in kernel.children(pid)]
        if found:
            return random.choice(found)
    raise AssertionError(f"no {victim} appeared")


def kill_at(delay_s: float, victim: str, when_ready: bool) -> list[str]:
    """Return what is left after a kill ``delay_s`` after the start of a runner, or of its arms."""
    mark = f"mark-{uuid.uuid4()}"
    with runner(mark) as process:
        if when_ready:
            assert process.stdout is not None
            process.stdout.readline()
        wait_for_end(process.pid, delay_s)
        for one in victim.split(" and "):
            with contextlib.suppress(ProcessLookupError):
                os.kill(find(one, process.pid), signal.SIGKILL)
        assert process.stdin is not None
        process.stdin.close()
        code = process.wait(120)
        assert code == (-signal.SIGKILL if "runner" in victim else 0)
    return settled(mark)


def kill_often(victim: str, moments: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(moments):
        delay_s = rng.uniform(0, SPREAD_S)
        left = kill_at(delay_s, victim, when_ready=number % 4 != 0)
        assert left == [], f"kill {number} of seed {seed}: the {victim} after {delay_s:.4f} s"


VICTIMS = ("runner", "server", "warden", "warden and runner")


@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_kill_leaves_nothing(victim: str) -> None:
    kill_often(victim, MOMENTS, seed=1)


@pytest.mark.timeout(7200)
@pytest.mark.nightly
@pytest.mark.parametrize("victim", VICTIMS)
def test_hundreds_of_kills_leave_nothing(victim: str) -> None:
    kill_often(victim, MOMENTS_NIGHTLY, seed=random.SystemRandom().randrange(1 << 31))
