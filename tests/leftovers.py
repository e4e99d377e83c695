"""What tests leave behind on the machine: found, named, and ended. Used by conftest.py alone.

Everything is attributed, so that two test runs side by side do not accuse each other: processes by
descent from one root, ports and namespaces by the process that holds them, files by being newer
than the watch and in use by nobody else.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

TCP_LISTEN = "0A"
CGROUP_DEPTH_MAX = 5
TEMPORARY = ("pymp-*", "chaoskit-*")


@dataclass(frozen=True, slots=True, order=True)
class Leftover:
    """One thing that is still there. ``pid`` is 0 for what is not a process."""

    kind: str
    what: str
    pid: int = 0

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look. Tests of the checker itself look elsewhere."""

    temporary: Path
    shm: Path = Path("/dev/shm")
    netns: Path = Path("/run/netns")
    cgroups: Path = Path("/sys/fs/cgroup")


@dataclass(slots=True)
class Watch:
    """Compares the machine with what it was when the watch began.

    All descendants of ``root`` count, except ``spared`` (and the services that Python itself keeps
    for the test process).
    """

    root: int
    places: Places
    spared: frozenset[int] = frozenset()
    _before: frozenset[str] = frozenset()
    _since: float = field(default_factory=time.time)
    _first_seen: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before = frozenset([*self._files(), *(str(p.pid) for p in self._descendants())])

    def note(self, test: str) -> None:
        """Remember ``test`` as the one in which a process was first seen."""
        for process in self._descendants():
            self._first_seen.setdefault(process.pid, test)

    def found(self) -> list[Leftover]:
        """Return what is there now and was not before."""
        processes = [p for p in self._descendants() if str(p.pid) not in self._before]
        found = [Leftover("process", self._describe(p), p.pid) for p in processes]
        for pid in [os.getpid(), *(p.pid for p in processes)]:
            found += [Leftover("listening port", f"{port} of process {pid}") for port in _listening(pid)]
            found += [Leftover("network namespace", f"{ns} of process {pid}") for ns in _namespaces(pid)]
        files = [path for path in self._files() if path not in self._before]
        foreign = _in_use_by_others(files, {self.root, *self.spared, *(p.pid for p in processes)})
        found += [Leftover(_kind_of(path, self.places), path) for path in files if path not in foreign]
        return sorted(set(found))

    def settled(self, limit_s: float = 20.0) -> list[Leftover]:
        """Return what is still there after up to ``limit_s``: an end takes a busy kernel some moments."""
        until = time.monotonic() + limit_s
        while (found := self.found()) and time.monotonic() < until:
            time.sleep(0.05)
        return found

    def _describe(self, process: psutil.Process) -> str:
        since = f", first seen in {self._first_seen[process.pid]}" if process.pid in self._first_seen else ""
        try:
            command = " ".join(process.cmdline())[:200] or process.name()
            return f"{process.pid} ({process.status()}) {command}{since}"
        except psutil.Error:
            return f"{process.pid}{since}"

    def _descendants(self) -> list[psutil.Process]:
        spared = self.spared | {os.getpid(), *_services()}
        found = []
        for process in psutil.Process(self.root).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.pid not in spared and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def _files(self) -> Iterator[str]:
        own = _own_temporary()
        for entry in _entries(self.places.temporary):
            if any(fnmatch.fnmatch(entry.name, p) for p in TEMPORARY) and entry.path not in own:
                yield entry.path
        for entry in _entries(self.places.shm):
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == os.getuid() and entry.stat().st_ctime >= self._since - 1:
                    yield entry.path
        yield from (e.path for e in _entries(self.places.netns) if e.name.startswith("chaoskit"))
        yield from _cgroups(self.places.cgroups)


def end(found: Iterable[Leftover]) -> None:
    """SIGKILL the processes among ``found``."""
    for leftover in found:
        if leftover.pid:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(leftover.pid).kill()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:  # no such place on this machine
        return []


def _kind_of(path: str, places: Places) -> str:
    kinds = {
        places.temporary: "temporary file",
        places.shm: "shared memory file",
        places.netns: "network namespace",
        places.cgroups: "cgroup",
    }
    return next(kind for place, kind in kinds.items() if Path(path).is_relative_to(place))


def _cgroups(root: Path) -> Iterator[str]:
    for folder, names, _ in os.walk(root):
        yield from (os.path.join(folder, n) for n in names if n.startswith("chaoskit"))
        if len(Path(folder).relative_to(root).parts) >= CGROUP_DEPTH_MAX:
            names.clear()


def _services() -> set[int]:
    """Python's own resource trackers: one each, living as long as the test process, on purpose."""
    trackers = (sys.modules.get(f"{m}.resource_tracker") for m in ("multiprocess", "multiprocessing"))
    return {pid for t in trackers if t and (pid := getattr(t._resource_tracker, "_pid", None))}


def _own_temporary() -> set[str]:
    """The folders that Python's multiprocessing removes when the test process itself exits."""
    modules = (sys.modules.get(f"{m}.process") for m in ("multiprocess", "multiprocessing"))
    return {folder for m in modules if m and (folder := m.current_process()._config.get("tempdir"))}


def _listening(pid: int) -> list[int]:
    """The TCP ports that the process listens on, in its own network namespace."""
    inodes = {link[len("socket:[") : -1] for link in _links(pid) if link.startswith("socket:[")}
    ports = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == TCP_LISTEN and columns[9] in inodes:
                    ports.append(int(columns[1].rpartition(":")[2], 16))
    return ports


def _namespaces(pid: int) -> list[str]:
    """Network namespaces other than our own that the process is in or holds open."""
    own = os.readlink("/proc/self/ns/net")
    with contextlib.suppress(OSError):
        held = {os.readlink(f"/proc/{pid}/ns/net"), *_links(pid)}
        return [ns for ns in held if ns.startswith("net:") and ns != own]
    return []


def _links(pid: int) -> list[str]:
    links = []
    for entry in _entries(Path(f"/proc/{pid}/fd")):
        with contextlib.suppress(OSError):
            links.append(os.readlink(entry.path))
    return links


def _in_use_by_others(paths: list[str], ours: set[int]) -> set[str]:
    """Those of ``paths`` that a process outside ``ours`` has open, mapped, or is a member of."""
    if not paths:
        return set()
    used = set()
    for pid in set(psutil.pids()) - ours - {os.getpid()}:
        used |= {path for path in paths if path.endswith(f"/chaoskit-probe-{pid}")}
        with contextlib.suppress(OSError):
            text = "\n".join([*_links(pid), Path(f"/proc/{pid}/maps").read_text()])
            text += Path(f"/proc/{pid}/cgroup").read_text()
            used |= {path for path in paths if path in text or f"/{Path(path).name}\n" in text}
    return used
