"""The state of a process in /proc: is it running, stopped, waiting; what CPU and I/O its tree used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessLook:
    """One look at a process. ``state`` as in /proc/PID/stat, "" when it is gone."""

    state: str = ""
    cpu_s: float = 0.0  # of the whole tree below it
    io_bytes: int = 0  # read and written by the main thread and by all descendants
    switches: int = -1  # context switches of the main thread


def look(pid: int) -> ProcessLook:
    """Return how the process and its descendants are now."""
    state, cpu = _stat(pid)
    if not state:
        return ProcessLook()
    io = _io(f"/proc/{pid}/task/{pid}/io")
    for child in _descendants(pid):
        cpu += _stat(child)[1]
        io += _io(f"/proc/{child}/io")
    return ProcessLook(state, cpu, io, _switches(pid))


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of this one process; 0 when it is gone."""
    return _stat(pid)[1]


def _stat(pid: int) -> tuple[str, float]:
    text = _read(f"/proc/{pid}/stat")
    # The command may hold anything, so fields are counted from the last parenthesis.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 14:
        return "", 0.0
    return fields[0].decode("ascii", "replace"), (int(fields[11]) + int(fields[12])) * _TICK_S


def _io(file: str) -> int:
    # Of the rank itself only the main thread counts: the threads of gloo, the store and the guards
    # exchange bytes also while the job hangs.
    wanted = (b"rchar:", b"wchar:")
    return sum(int(line.split()[1]) for line in _read(file).splitlines() if line.startswith(wanted))


def _switches(pid: int) -> int:
    lines = _read(f"/proc/{pid}/task/{pid}/status").splitlines()
    counts = [int(line.split()[1]) for line in lines if b"_ctxt_switches:" in line]
    return sum(counts) if counts else -1


def _descendants(pid: int) -> Iterator[int]:
    todo = [pid]
    while todo:
        parent = todo.pop()
        try:
            threads = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for thread in threads:
            children = [int(c) for c in _read(f"/proc/{parent}/task/{thread}/children").split()]
            yield from children
            todo += children


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
