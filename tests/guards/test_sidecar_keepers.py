"""What happens to a job when the keepers themselves are killed, stopped or held up."""

from __future__ import annotations

import os
import signal
import socket
import time

import pytest
from guards.acquainted import alive, formed, start_kept
from sidecar.kept_job import (
    LONG,
    fill,
    wait_and_check,
    wait_for_end,
    waiting_outside,
)

from chaoskit.guards.sidecar import Sidecar


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_keeper_ends_the_whole_job(victim: int) -> None:
    job, all_know = start_kept(waiting_outside, LONG)
    ranks = formed(job, all_know)
    killed = time.monotonic()
    os.kill(job.pids[victim], signal.SIGKILL)
    ended = wait_and_check(job, ranks, killed)
    assert [end.code for end in ended] == [-9 if slot == victim else 90 for slot in range(3)]
    other = ended[1]
    assert f"rank {victim} (host " in other.err
    assert "its keeper was killed or its host is gone" in other.err


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_keeper_on_this_host_has_the_wait_of_a_stopped_rank(victim: int) -> None:
    # The wait: a loaded machine must not use it up before the keeper goes on.
    job, all_know = start_kept(waiting_outside, Sidecar(silent_s=2, stopped_wait_s=8), ranks=2)
    ranks = formed(job, all_know)
    os.kill(job.pids[victim], signal.SIGSTOP)
    all_know.wait_stopped(1 - victim)
    time.sleep(2.5)  # what must not happen has no event
    assert alive(ranks)
    os.kill(job.pids[victim], signal.SIGCONT)
    all_know.wait_stopped(1 - victim, stopped=False)
    assert alive(ranks)
    again = time.monotonic()
    os.kill(job.pids[victim], signal.SIGSTOP)
    ended = job.wait(kill=[victim])
    assert ended[1 - victim].after_s + job.started - again > 3.5
    assert ended[1 - victim].code == 90
    assert "has a keeper that has been stopped for 8 s" in ended[1 - victim].err
    wait_for_end(ranks[victim])


@pytest.mark.parametrize("victim", [0, 1])
def test_a_keeper_that_falls_silent_ends_the_others(victim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: f"host-{os.environ['RANK']}")  # another host, to them
    job, all_know = start_kept(waiting_outside, Sidecar(silent_s=4), ranks=2)
    formed(job, all_know)
    os.kill(job.pids[victim], signal.SIGSTOP)
    ended = job.wait(kill=[victim])
    assert ended[1 - victim].code == 90
    assert f"rank {victim} (host " in ended[1 - victim].err
    assert "cannot be reached: nothing heard of its host for 4 s" in ended[1 - victim].err


def test_a_full_stderr_that_nobody_reads_keeps_nobody_from_ending_the_job() -> None:
    reader, writer = os.pipe()
    job, all_know = start_kept(waiting_outside, LONG, stderr=writer)
    ranks = formed(job, all_know)
    fill(writer)
    killed = time.monotonic()
    os.kill(ranks[2], signal.SIGKILL)
    assert [end.code for end in wait_and_check(job, ranks, killed)] == [90, 90, -9]
    os.close(writer)
    os.close(reader)
