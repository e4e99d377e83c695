"""The state of a process in /proc: is it running, stopped, waiting; what CPU and I/O its tree used.

:func:`look` is cheap, and taken again and again before the deadline; :func:`status` is all that there is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.evidence.family import Report, Scene, Source
from chaoskit.evidence.findings import ProcessStatus, ThreadState

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_THREADS_MAX = 256
_SIGNALS_MAX = 64
REAL_TIME = int(signal.SIGRTMIN)


@dataclass(frozen=True, slots=True)
class Process(Source):
    """What /proc tells: state, memory, signals, and where each thread waits in the kernel."""

    name: ClassVar[str] = "process"
    file: ClassVar[str] = "process.json"
    first: ClassVar[bool] = True

    def gather(self, scene: Scene) -> Iterator[tuple[int, Report]]:
        for slot, pid in scene.pids.items():
            if not scene.left_s:
                return
            found = status(pid)
            yield slot, Report(found) if found.state else Report(missing=("the process has ended",))


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


def status(pid: int) -> ProcessStatus:
    """Return all that /proc tells of the process; what cannot be read is left unknown."""
    state = _stat(pid)[0]
    if not state:
        return ProcessStatus()
    try:
        listed = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        listed = []
    # Those of the main thread are the process's own: its signals and its memory.
    fields = {number: _fields(f"/proc/{pid}/task/{number}/status") for number in listed[:_THREADS_MAX]}
    own = fields.get(pid) or _fields(f"/proc/{pid}/status")
    return ProcessStatus(
        state=state,
        rss_bytes=_kib(own, "VmRSS"),
        peak_rss_bytes=_kib(own, "VmHWM"),
        thread_count=len(listed) or _whole(own, "Threads"),
        voluntary_switches=_total(fields, "voluntary_ctxt_switches"),
        involuntary_switches=_total(fields, "nonvoluntary_ctxt_switches"),
        pending=tuple(dict.fromkeys(signals_in(own.get("ShdPnd", "")) + signals_in(own.get("SigPnd", "")))),
        blocked=signals_in(own.get("SigBlk", "")),
        ignored=signals_in(own.get("SigIgn", "")),
        caught=signals_in(own.get("SigCgt", "")),
        threads=tuple(_thread(pid, number, fields[number]) for number in fields if fields[number]),
    )


def signals_in(mask: str) -> tuple[str, ...]:
    """Return the signals in a mask as /proc/PID/status prints it: ``SIGTERM``, ``SIGRTMIN+7``."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return ()
    return tuple(_signal_name(number) for number in range(1, _SIGNALS_MAX + 1) if bits >> number - 1 & 1)


def _signal_name(number: int) -> str:
    if number > REAL_TIME:
        return f"SIGRTMIN+{number - REAL_TIME}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # those between are glibc's own


def _thread(pid: int, number: int, fields: Mapping[str, str]) -> ThreadState:
    waits_in = _read(f"/proc/{pid}/task/{number}/wchan").decode("ascii", "replace")
    return ThreadState(
        thread_id=number,
        name=fields.get("Name", ""),
        state=fields.get("State", "")[:1],
        waits_in="" if waits_in == "0" else waits_in,  # 0: it runs, or we may not know
    )


def _fields(file: str) -> dict[str, str]:
    # The kernel escapes a newline in the name of a process, so a line is a field.
    lines = _read(file).decode("utf-8", "replace").split("\n")
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _whole(fields: Mapping[str, str], name: str) -> int:
    first = fields.get(name, "").split()[:1]
    return int(first[0]) if first and first[0].isdecimal() else -1


def _kib(fields: Mapping[str, str], name: str) -> int:
    amount = _whole(fields, name)
    return amount * 1024 if amount >= 0 else -1


def _total(threads: Mapping[int, Mapping[str, str]], name: str) -> int:
    known = [count for fields in threads.values() if (count := _whole(fields, name)) >= 0]
    return sum(known) if known else -1


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
