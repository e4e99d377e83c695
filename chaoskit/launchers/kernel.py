"""The few Linux calls that Python 3.11 has no name for, through ctypes. Standard library only, no policy."""

from __future__ import annotations

import ctypes
import os
import select
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_PTRACER: Final = 0x59616D61
_PR_SET_PTRACER_ANY: Final = ctypes.c_ulong(-1).value
_MADV_COLLAPSE: Final = 25
_HUGE_PAGE_BYTES: Final = 2 << 20

_libc: Final = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, value: int, what: str) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl({what})")


def signal_at_parents_end(number: signal.Signals | None) -> None:
    """Ask for ``number`` when the *thread* that started this process ends; None takes that back.

    The parent may be gone already: compare ``os.getppid()`` afterwards.
    """
    _prctl(_PR_SET_PDEATHSIG, 0 if number is None else number, "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (a *subreaper*)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")


def let_anyone_trace() -> None:
    """Let processes of the same user read this one's stack where Yama restricts that to ancestors."""
    try:
        _prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, "PR_SET_PTRACER")
    except OSError:
        return  # a kernel without Yama restricts nothing


def set_name(name: str) -> None:
    """Set the name that ``ps`` and /proc/PID/comm show (15 bytes)."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    _checked(_libc.prctl(_PR_SET_NAME, buffer, 0, 0, 0), "prctl(PR_SET_NAME)")


def resolve_from_hosts_file_only() -> None:
    """Keep this process from asking DNS servers for names and addresses (glibc only, else nothing happens).

    c10d's log lines look up ``::ffff:127.0.0.1``, which takes 5 s where DNS queries are dropped.
    """
    configure = getattr(_libc, "__nss_configure_lookup", None)
    if configure is not None:
        configure(b"hosts", b"files")


def readable_within(fd: int, limit_s: float) -> bool:
    """Wait until ``fd`` can be read (a pidfd: until the process has ended); return whether that came."""
    poll = select.poll()  # select() refuses descriptors above 1023, which a user's process may well have
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, limit_s) * 1000))


def collapse_pages() -> None:
    """Put this process's private memory on huge pages where the kernel does that (6.1 and newer).

    Takes about 0.5 s with torch loaded; a fork then takes 3 ms instead of 12 and the end of the child half as
    long, because there are fewer page tables to copy and to free.
    """
    for start, end in _private_writable():
        first = -(-start // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
        length = end // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES - first
        if length > 0:
            _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), _MADV_COLLAPSE)  # only an attempt


def _private_writable() -> list[tuple[int, int]]:
    """The address ranges of this process that a fork has to copy."""
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            addresses, rights = line.split()[:2]
            if rights.startswith("rw") and rights.endswith("p"):
                start, _, end = addresses.partition("-")
                found.append((int(start, 16), int(end, 16)))
    return found


def children(pid: int) -> list[int]:
    """Return the children of ``pid`` (zombies too), those of all its threads; [] when it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except FileNotFoundError:
            if not _HAS_CHILDREN_FILES:
                return _children_by_scan(pid)
        except OSError:
            continue  # the thread has ended
    return found


_HAS_CHILDREN_FILES: Final = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # CONFIG_PROC_CHILDREN


def _children_by_scan(pid: int) -> list[int]:
    return [p for p in map(int, filter(str.isdecimal, os.listdir("/proc"))) if parent(p) == pid]


def parent(pid: int) -> int:
    """Return the parent of ``pid``; 0 when it is gone."""
    fields = _stat_fields(pid)
    return int(fields[1]) if fields else 0


def state(pid: int) -> str:
    """Return the state of ``pid`` as in /proc/PID/stat (R S D T Z …); "" when it is gone."""
    fields = _stat_fields(pid)
    return fields[0] if fields else ""


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold blanks and brackets."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def command(pid: int, limit: int = 200) -> str:
    """Return the command line of ``pid``, or its name in brackets where it has none."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4 * limit).split(b"\0")
        if any(words):
            return b" ".join(words).decode(errors="replace").strip()[:limit]
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return f"[{file.read().strip()}]"
    except OSError:
        return "?"


def run_delay_s(pid: int) -> float:
    """Return how long the main thread of ``pid`` was runnable without a core; 0 where it is not told."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0
