"""One look at all ranks, with real processes and regions that a recorder wrote."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from chaoskit.evidence import process, stacks
from chaoskit.evidence.findings import Stacks, ThreadStack
from chaoskit.evidence.look import Looks, with_stacks
from chaoskit.evidence.stacks import Stack
from chaoskit.rank import region
from chaoskit.rank.region import Word

pytestmark = pytest.mark.timeout(300)

ASLEEP = """
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: None)
os.write(1, b'r')
while True: signal.pause()
"""
Regions = dict[int, mmap.mmap]
Asked = list[dict[int, int]]


@pytest.fixture
def regions() -> Iterator[Regions]:
    memfd = os.memfd_create("test", os.MFD_CLOEXEC)
    os.truncate(memfd, 3 * region.REGION_BYTES)
    made = {slot: region.map_region(memfd, slot) for slot in range(3)}
    for memory in made.values():
        write(memory, Word.MAGIC, region.MAGIC)
        write(memory, Word.VERSION, region.VERSION)
    yield made
    for memory in made.values():
        memory.close()
    os.close(memfd)


def write(memory: mmap.mmap, word: Word, value: int) -> None:
    memory[word * 8 : word * 8 + 8] = value.to_bytes(8, "little")


@pytest.fixture
def pid() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-S", "-c", ASLEEP], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.read(1) == b"r"
        yield started.pid
        started.kill()


def asleep(pid: int) -> None:
    """Return when it waits: nothing is to be seen of it any more."""
    while not ((seen := process.look(pid)).state == "S" and seen == process.look(pid)):
        os.sched_yield()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What stacks were asked for; the slot is in what is given."""
    asked: Asked = []

    def gather(pids: Mapping[int, int]) -> dict[int, Stack]:
        asked.append(dict(pids))
        return {s: Stack((f"f (/user.py:{s})",), f"/user.py:{s}", f"/user.py:{s}") for s in pids}

    monkeypatch.setattr(stacks, "gather", gather)
    return asked


def test_each_rank_gets_one_sample_with_what_was_seen(regions: Regions, pid: int, asked: Asked) -> None:
    write(regions[1], Word.STEP, 5)
    write(regions[1], Word.PROGRESS, 8)
    found = Looks(regions).last({0: pid, 1: pid})
    assert [s.slot for s in found] == [0, 1]
    assert asked == [], "stacks come with all other evidence"
    assert found[0].token != found[1].token
    assert {s.state for s in found} <= {"S", "R"}
    assert found[0].t_s == found[1].t_s


def test_samples_get_the_main_threads_python_frames(regions: Regions, pid: int) -> None:
    frames = ("pthread_cond_wait (libc.so.6)", "wait (/v/torch/x.py:7)", "main (/me/my (1) train.py:3)")
    other = ThreadStack("other", 9, frames=("f (/other.py:1)",))
    found = {1: Stacks(threads=(other, ThreadStack("MainThread", pid, main=True, frames=frames)))}
    first, second = with_stacks(Looks(regions).last({0: pid, 1: pid}), found)
    assert (first.stack, first.line, first.site) == ((), "", "")
    assert second.stack == frames[1:]
    assert (second.line, second.site) == ("/v/torch/x.py:7", "/me/my (1) train.py:3")


def test_the_token_changes_with_whatever_moves(regions: Regions, pid: int, asked: Asked) -> None:
    looks = Looks(regions)
    tokens = [looks.take({0: pid})[0].token]
    for word in (Word.STEP, Word.PROGRESS):
        write(regions[0], word, 3)
        tokens.append(looks.take({0: pid})[0].token)
    assert len(set(tokens)) == len(tokens)
    assert looks.take({0: pid})[0].token == tokens[-1]


def test_a_stack_is_read_only_of_one_that_has_run_since_the_last_look(
    regions: Regions, pid: int, asked: Asked
) -> None:
    asleep(pid)
    looks = Looks(regions)
    looks.take({0: pid})
    first = looks.take({0: pid})[0]
    assert asked == [{}, {}]
    os.kill(pid, signal.SIGUSR1)  # its handler runs, and it sleeps again
    while process.look(pid).switches == first.switches:
        os.sched_yield()
    assert looks.take({0: pid})[0].line == "/user.py:0"


def test_the_stack_of_a_stopped_rank_is_not_read(regions: Regions, pid: int, asked: Asked) -> None:
    looks = Looks(regions)
    looks.take({2: pid})
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    found = looks.take({2: pid})
    assert (found[0].state, found[0].line, asked) == ("T", "", [{}, {}])
    assert looks.last({2: pid})[0].state == "T"


def test_one_that_is_gone_is_not_seen(regions: Regions, asked: Asked) -> None:
    with subprocess.Popen(["true"]) as over:
        over.wait()
    looks = Looks(regions)
    assert looks.take({0: over.pid}) == looks.last({0: over.pid}) == looks.take({}) == []


def test_what_is_left_of_a_declared_phase(regions: Regions, pid: int, asked: Asked) -> None:
    looks = Looks(regions)
    assert looks.take({0: pid})[0].allowance_s == 0.0
    write(regions[0], Word.ALLOWANCE_NS, 1)
    assert looks.take({0: pid})[0].allowance_s == 0.0, "it is over"
    write(regions[0], Word.ALLOWANCE_NS, (1 << 63) - 1)
    assert looks.take({0: pid})[0].allowance_s > 1e6


def test_a_region_full_of_rubbish_is_seen_all_the_same(regions: Regions, pid: int, asked: Asked) -> None:
    looks = Looks(regions)
    regions[0][:] = os.urandom(len(regions[0]))
    assert [s.slot for s in looks.take({0: pid})] == [0]
    write(regions[0], Word.MAGIC, region.MAGIC)
    write(regions[0], Word.VERSION, region.VERSION)
    assert [s.slot for s in looks.take({0: pid})] == [0]
