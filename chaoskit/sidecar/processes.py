"""The few things a keeper asks Linux that Python 3.11 has no name for. Standard library only, no policy."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36

KEEPER_NAME: Final = "chaoskit-keeper"
"""As ``ps`` shows it: at most 15 bytes."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Get SIGKILL when the thread that forked this process ends. It may have ended already: compare
    ``os.getppid()`` afterwards."""
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_name(name: str) -> None:
    """Set the name that ``ps`` and /proc/PID/comm show (15 bytes)."""
    _libc.prctl(_PR_SET_NAME, ctypes.create_string_buffer(name.encode()[:15]), 0, 0, 0)


def kill_descendants(of: int) -> None:
    """SIGKILL everything below ``of``. What is forked meanwhile is missed: call again until none is left."""
    for pid in descendants(of):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def descendants(of: int) -> list[int]:
    """Return all processes below ``of``, parents first."""
    parents = {pid: up for pid in _all() if (up := parent(pid))}
    found, level = list[int](), {of}
    while level:
        level = {pid for pid, up in parents.items() if up in level}
        found += sorted(level)
    return found


def state(pid: int) -> str:
    """Return the state as in /proc/PID/stat: R S D T (stopped) t (a debugger's) Z; '' when it is gone."""
    fields = _stat(pid)
    return fields[0] if fields else ""


def parent(pid: int) -> int:
    """Return the pid of its parent; 0 when it is gone, or the parent cannot be seen from here."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def run_delay_s(pid: int) -> float | None:
    """Return how long the main thread was runnable without a core, of a zombie too; None if untold."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/schedstat", "rb") as file:
        return int(file.read().split()[1]) * 1e-9
    return None


def keeper_state(pid: int) -> str:
    """Return the :func:`state` of a keeper; '' when it is gone, also where another process has its number."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8") as file:
        if file.read().strip() == KEEPER_NAME:
            return state(pid)
    return ""


def pid_namespace() -> str:
    """Return a word that is the same in all processes that see one another by number; '' where unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def ignores(pid: int, number: int) -> bool:
    """Is that signal ignored (not merely handled) by the process?"""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold blanks and brackets."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
