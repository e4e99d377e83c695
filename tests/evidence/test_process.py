"""Looks at real processes in every state that the judge tells apart."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.evidence import process
from chaoskit.evidence.findings import ProcessStatus
from chaoskit.evidence.process import ProcessLook

pytestmark = pytest.mark.timeout(300)

BUSY = "import os\nos.write(1, b'r')\nwhile True: pass"
WRITING = "import os\nos.write(1, b'r')\nwhile True: os.write(2, b'x' * 4096)"
ASLEEP = "import os, signal\nos.write(1, b'r')\nsignal.pause()"
WITH_A_BUSY_GRANDCHILD = """
import os, signal
if os.fork() == 0:
    if os.fork() == 0:
        while True: pass
    signal.pause()
os.write(1, b'r')
signal.pause()
"""
BUSY_THREAD_THAT_FORKS = """
import os, signal, threading
def fork():
    if os.fork() == 0:
        while True: os.write(2, b'x' * 4096)
    os.write(1, b'r')
    threading.Event().wait()
threading.Thread(target=fork, daemon=True).start()
signal.pause()
"""


@contextmanager
def child(code: str) -> Iterator[int]:
    """A Python process in a session of its own that has written one byte; ended with all its children."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.read(1) == b"r"
            yield started.pid
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


def until(pid: int, wanted: Callable[[ProcessLook], bool]) -> ProcessLook:
    """Look until the look is as wanted; the test's time limit bounds it."""
    while not wanted(found := process.look(pid)):
        os.sched_yield()
    return found


def test_one_that_sleeps_uses_nothing() -> None:
    with child(ASLEEP) as pid:
        # One that is on its way to sleep has its state before its last switch is counted.
        until(pid, lambda look: look.state == "S" and look == process.look(pid))
        first = process.look(pid)
        assert process.look(pid) == first


def test_one_that_works() -> None:
    with child(BUSY) as pid:
        first = until(pid, lambda look: look.state == "R")
        later = until(pid, lambda look: look.cpu_s > first.cpu_s)
        assert process.cpu_s(pid) >= later.cpu_s


def test_one_that_is_stopped() -> None:
    with child(BUSY) as pid:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        assert process.look(pid).state == "T"


def test_a_zombie_and_one_that_is_gone() -> None:
    with child(ASLEEP) as pid:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert process.look(pid).state == "Z"
        os.waitpid(pid, 0)
        assert process.look(pid) == ProcessLook()
        assert process.cpu_s(pid) == 0.0


def test_input_and_output_count() -> None:
    with child(WRITING) as pid:
        first = process.look(pid)
        until(pid, lambda look: look.io_bytes > first.io_bytes + 100_000)


def test_what_its_descendants_do_counts() -> None:
    with child(WITH_A_BUSY_GRANDCHILD) as pid:
        first = process.look(pid)
        until(pid, lambda look: look.cpu_s > first.cpu_s + 0.05)
        assert process.cpu_s(pid) < 5.0, "of the process alone"


def test_children_of_any_thread_count() -> None:
    with child(BUSY_THREAD_THAT_FORKS) as pid:
        first = process.look(pid)
        until(pid, lambda look: look.io_bytes > first.io_bytes)


@pytest.mark.parametrize("name", ["a) R 1 2 (", "\\n", "(((", ") Z "])
def test_a_name_that_looks_like_fields_misleads_nobody(name: str) -> None:
    code = f"open('/proc/self/comm', 'w').write({name!r})\n{ASLEEP}"
    with child(code) as pid:
        assert until(pid, lambda look: look.state == "S").cpu_s < 5.0


# ---------------------------------------------------------------- all that there is

TWO_THREADS = """
import os, signal, threading
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.signal(signal.SIGRTMIN + 3, lambda *_: None)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
def load():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write("a) S 1: (\\nb")
    os.write(1, b"r")
    threading.Event().wait()
threading.Thread(target=load, daemon=True).start()
while True: signal.pause()
"""


def test_memory_signals_and_threads() -> None:
    with child(TWO_THREADS) as pid:
        os.kill(pid, signal.SIGUSR2)
        # Until the main thread sits in pause(): while the other one starts it waits, and runs again.
        while not ((found := process.status(pid)).state == "S" and found.threads[0].waits_in):
            os.sched_yield()
    assert (found.state, found.thread_count) == ("S", 2)
    assert found.peak_rss_bytes >= found.rss_bytes > 1 << 20
    assert found.voluntary_switches > 0
    assert found.involuntary_switches >= 0
    assert found.pending == ("SIGUSR2",)
    assert found.blocked == ("SIGUSR2",)
    assert "SIGTERM" in found.ignored
    assert {"SIGUSR1", "SIGRTMIN+3", "SIGINT"} <= set(found.caught)
    assert found.threads[0].thread_id == pid
    assert found.threads[1].name.startswith("a) S 1: (")
    assert {t.state for t in found.threads} <= {"S", "R"}
    assert found.threads[0].waits_in


def test_of_one_that_is_gone_nothing_is_known() -> None:
    with subprocess.Popen(["true"]) as over:
        over.wait()
    assert process.status(over.pid) == ProcessStatus()


@given(st.text(max_size=20) | st.integers(0, (1 << 64) - 1).map(lambda mask: f"{mask:016x}"))
def test_any_mask_gives_names(mask: str) -> None:
    names = process.signals_in(mask)
    assert len(names) == len(set(names)) <= 64
