"""Ends process trees. Whoever calls this owns the tree: the warden its descendants, the server and the runner
what a warden that was killed has left to the server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Container
from typing import Final

from chaoskit.launchers import kernel

_LOOK_AGAIN_S: Final = 0.05
"""How long to wait for a killed process before its tree is looked at again."""


def descendants(root: int) -> list[int]:
    """Return all processes below ``root`` as they are now, parents first; some may have ended."""
    found: list[int] = []
    level = [root]
    while level:
        level = [child for pid in level for child in kernel.children(pid)]
        found += level
    return found


def kill(pid: int) -> None:
    """SIGKILL ``pid``; nothing happens when it is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_tree(pid: int) -> None:
    """SIGKILL ``pid`` and all that is below it now. What they just fork comes to the next subreaper."""
    below = descendants(pid)
    kill(pid)
    for other in below:
        kill(other)


def kill_orphans(adopter: int, spared: Container[int], limit_s: float) -> bool:
    """SIGKILL the children of ``adopter``, another process, but the ``spared``, and all that is below them.

    Returns whether none is left within ``limit_s``. A process that loses its parent while the list is
    read can be missed once, so two looks in a row must find nothing. What is found is killed, however late.
    """
    deadline = time.monotonic() + limit_s
    clean_looks = 0
    while clean_looks < 2:
        orphans = [pid for pid in kernel.children(adopter) if pid not in spared]
        clean_looks = 0 if orphans else clean_looks + 1
        for pid in orphans:
            kill_tree(pid)
        if orphans and time.monotonic() > deadline:
            return False
        if orphans:
            _wait_for_end(orphans[0], _LOOK_AGAIN_S)
    return True


def _wait_for_end(pid: int, timeout_s: float) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        kernel.readable_within(pidfd, timeout_s)
    finally:
        os.close(pidfd)


def outlive_children(grace_s: float, clock: Callable[[], float] = time.monotonic) -> None:
    """Return when this process, a subreaper, has no descendants: after ``grace_s`` they are killed.

    Stopped children are woken first, so that each can do what it has to do at its own end.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for pid in kernel.children(os.getpid()):
        os.kill(pid, signal.SIGCONT)
    deadline = clock() + grace_s
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if clock() >= deadline:
            for pid in descendants(os.getpid()):
                kill(pid)
        signal.sigtimedwait({signal.SIGCHLD}, _LOOK_AGAIN_S)
