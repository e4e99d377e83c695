"""Process trees are found and ended, whatever their depth and state."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from chaoskit.launchers import kernel, sweep

TREE = """
import os, sys, signal
for depth in range(4):
    if os.fork():
        signal.pause()
os.setsid()
print("ready", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture
def tree():
    process = subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_descendants_of_all_depths_are_found(tree) -> None:
    below = sweep.descendants(tree.pid)
    assert len(below) == 4
    assert kernel.parent(below[0]) == tree.pid
    assert kernel.parent(below[3]) == below[2]
    sweep.kill_tree(tree.pid)


def test_a_tree_is_ended_with_its_stopped_members(tree) -> None:
    below = [os.pidfd_open(pid) for pid in sweep.descendants(tree.pid)]
    sweep.kill_tree(tree.pid)
    for pidfd in below:
        assert select.select([pidfd], [], [], 30)[0]
        os.close(pidfd)
    assert tree.wait(30) == -signal.SIGKILL


def test_orphans_are_ended_and_others_spared(tree) -> None:
    spared, *_ = kernel.children(tree.pid)
    assert sweep.kill_orphans(tree.pid, {spared}, limit_s=10)
    assert kernel.state(spared) not in ("", "Z")
    pidfd = os.pidfd_open(spared)
    assert sweep.kill_orphans(tree.pid, (), limit_s=0.1) is False  # killed, but nobody reaps it
    assert select.select([pidfd], [], [], 30)[0]
    os.close(pidfd)
    assert kernel.state(spared) == "Z"
    sweep.kill_tree(tree.pid)


def test_children_are_found_without_the_kernels_lists(tree) -> None:
    assert kernel._children_by_scan(tree.pid) == kernel.children(tree.pid)
    sweep.kill_tree(tree.pid)


def test_what_is_gone_is_no_error() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    sweep.kill_tree(child.pid)
    assert (kernel.state(child.pid), kernel.parent(child.pid), kernel.command(child.pid)) == ("", 0, "?")
