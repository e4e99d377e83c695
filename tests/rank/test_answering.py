"""A rank that can be asked, seen from inside: nothing of it may show or matter to the script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.rank import region
from chaoskit.rank.exchange import Answer, Exchange

pytestmark = pytest.mark.timeout(300)

START = """
import ctypes, os, signal, sys, threading, _thread
from pathlib import Path
from chaoskit.rank import answering
from chaoskit.rank.region import Channels
memfd = int(sys.argv[1])
answering.start(Channels(memfd, 0), 0)
"""


@pytest.fixture
def memfd() -> int:
    fd = os.memfd_create("test", os.MFD_CLOEXEC)
    os.truncate(fd, region.REGION_BYTES)
    return fd


def run(script: str, memfd: int, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START + script, str(memfd)],
        pass_fds=(memfd,),
        env={**os.environ, "CHAOSKIT_SCRATCH": str(folder / "scratch"), **environment},
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_the_script_sees_no_thread_and_does_not_wait_for_one(memfd: int, tmp_path: Path) -> None:
    ended = run("print(threading.active_count(), [t.name for t in threading.enumerate()])", memfd, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "1 ['MainThread']\n"


def test_its_thread_takes_no_signal_of_the_scripts(memfd: int, tmp_path: Path) -> None:
    script = """
while "chaoskit-answer" not in (names := {Path(p, "comm").read_text().strip(): p for p in map(str, Path("/proc/self/task").iterdir())}): os.sched_yield()
lines = Path(names["chaoskit-answer"], "status").read_text().splitlines()
print(next(l.split()[1] for l in lines if l.startswith("SigBlk")), signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""  # noqa: E501
    blocked, own = run(script, memfd, tmp_path).stdout.split()
    # All but SIGKILL, SIGSTOP and the two that are glibc's own.
    assert int(blocked, 16) | 1 << 8 | 1 << 18 | 3 << 31 == (1 << 64) - 1
    assert own == "set()"


def test_no_descriptor_is_taken_but_that_of_the_stacks(memfd: int, tmp_path: Path) -> None:
    script = """
def targets():
    for fd in sorted(map(int, os.listdir("/proc/self/fd"))):
        try: target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError: continue
        if fd > 2 and fd != memfd: yield target
# The thread gives itself its name through a file, which is open for a moment.
while "chaoskit-answer" not in [p.joinpath("comm").read_text().strip() for p in Path("/proc/self/task").iterdir()]:
    os.sched_yield()
while any(target.endswith("/comm") for target in targets()): os.sched_yield()
print(*targets(), sep="\\n")
"""  # noqa: E501
    assert run(script, memfd, tmp_path).stdout == f"{tmp_path}/rank0/faulthandler.txt\n"


def test_a_forked_child_does_not_answer(memfd: int, tmp_path: Path) -> None:
    script = """
while not (tasks := len(os.listdir("/proc/self/task"))) == 2: os.sched_yield()
child = os.fork()
if child == 0:
    print(len(os.listdir("/proc/self/task")), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert run(script, memfd, tmp_path).stdout == "1\n"


@pytest.mark.parametrize("broken", ["folder", "variable", "memory"])
def test_what_cannot_be_prepared_does_not_trouble_the_script(broken: str, memfd: int, tmp_path: Path) -> None:
    if broken == "folder":
        (tmp_path / "rank0").write_text("in the way")
    if broken == "memory":
        os.truncate(memfd, 0)
    scratch = {"CHAOSKIT_SCRATCH": ""} if broken == "variable" else {}
    ended = run("print('done')", memfd, tmp_path, **scratch)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


def test_words_that_anybody_may_have_written(memfd: int) -> None:
    with open(memfd, "r+b", closefd=False) as file:
        file.write(b"\xff" * region.REGION_BYTES)
    exchange = Exchange.of_supervisor(memfd, 0)
    assert exchange.answer not in set(Answer)
    assert exchange.stacks_fd == 0xFFFF_FFFE
    assert exchange.main_thread == 0xFFFF_FFFF_FFFF_FFFF
    exchange.ask()


def test_both_sides_see_the_same_words(memfd: int) -> None:
    ours, theirs = Exchange.of_supervisor(memfd, 0), Exchange.of_rank(memfd, 0)
    assert (ours.answer, ours.stacks_fd) == (Answer.NOBODY, -1)
    theirs.tell_stacks(7, 0x7F12_3456_789A)
    theirs.say(Answer.AT_IT)
    assert (ours.answer, ours.stacks_fd, ours.main_thread) == (Answer.AT_IT, 7, 0x7F12_3456_789A)
    ours.ask()
    assert theirs.wait(), "it was asked before it waited"


def test_the_signal_is_nobody_elses() -> None:
    from chaoskit.guards import progress_watchdog, step_heartbeat
    from chaoskit.rank import answering, triggers

    others = {progress_watchdog.SIGNAL, step_heartbeat.SIGNAL, triggers._MAIN_THREAD_SIGNAL}
    assert answering.SIGNAL not in others
    assert signal.SIGRTMIN < answering.SIGNAL < signal.SIGRTMAX
