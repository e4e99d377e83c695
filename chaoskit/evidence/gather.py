"""Gathers the evidence of all sources at once, before anything is ended, and writes it down.

Never longer than a limit: what is not there by then is named as missing. A source that breaks is missing
too; it takes nothing else with it.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import select
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from chaoskit.errors import BrokenPlugin
from chaoskit.evidence import findings
from chaoskit.evidence.family import REGISTRY, Report, Scene, Source
from chaoskit.evidence.findings import Stacks, Summary
from chaoskit.rank import answering
from chaoskit.rank.exchange import Exchange

LIMIT_S: Final = 5.0
FIRST_S: Final = 1.0
"""How long the others wait for the sources that go first; at 64 ranks these need 0.3 s of a core."""
_TURN_S: Final = 0.02
_registering: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Asked:
    """What of an arm is to be looked at: its folder, the ranks that live (slot -> pid), and their memory.

    ``stop_fd`` becomes readable when nobody wants evidence any more; -1: never.
    """

    arm_dir: Path
    pids: Mapping[int, int]
    memfd: int = -1
    store_port: int = 0
    native: bool = False
    limit_s: float = LIMIT_S
    stop_fd: int = -1


@dataclass(slots=True)
class Gathered:
    """What came of it, by slot. The files are written already."""

    stacks: dict[int, Stacks] = field(default_factory=dict)
    missing: dict[int, tuple[str, ...]] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)


def gather(asked: Asked) -> Gathered:
    """Ask every source about every rank and write what they find into ``rank<N>/``. Raises for no rank."""
    return _Gathering(asked, *_sources()).run() if asked.pids else Gathered()


class _Gathering:
    """One thread for each source; what they give is taken and written here, as it comes."""

    def __init__(self, asked: Asked, sources: tuple[Source, ...], broken: tuple[str, ...]) -> None:
        self._asked = asked
        self._sources = {source.name: source for source in sources}
        self._started = time.monotonic()
        self._scene = Scene(
            asked.arm_dir, dict(asked.pids), self._started + asked.limit_s, _exchanges(asked),
            asked.store_port, asked.native,
        )  # fmt: skip
        self._came: queue.SimpleQueue[_Came] = queue.SimpleQueue()
        self._waiting = set(self._sources)
        self._broken = broken
        self._missing: dict[int, dict[str, tuple[str, ...]]] = {slot: {} for slot in asked.pids}
        self._found = Gathered()

    def run(self) -> Gathered:
        first = {name for name, source in self._sources.items() if source.first}
        later = self._waiting - first
        self._begin(first)
        while self._waiting and self._scene.left_s and not _is_readable(self._asked.stop_fd):
            with contextlib.suppress(queue.Empty):
                self._take(self._came.get(timeout=min(_TURN_S, self._scene.left_s)))
            if later and (not first & self._waiting or self._since_start_s() > FIRST_S):
                self._begin(later)
                later = set()
        interrupted = _is_readable(self._asked.stop_fd)
        self._scene.stop.set()
        self._found.took_s["all"] = self._since_start_s()
        self._close("interrupted" if interrupted else f"not ready within {self._asked.limit_s:g} s")
        return self._found

    def _begin(self, names: set[str]) -> None:
        for name in sorted(names):
            arguments = (self._sources[name], self._scene, self._came)
            threading.Thread(target=_run, args=arguments, name=f"evidence {name}", daemon=True).start()

    def _take(self, came: _Came) -> None:
        if isinstance(came.what, Report):
            if came.slot in self._missing:  # a plug-in may give anything
                self._keep(self._sources[came.source], came.slot, came.what)
            return
        self._waiting.discard(came.source)
        self._found.took_s[came.source] = self._since_start_s()
        self._miss(came.source, came.what or "nothing was found out")

    def _keep(self, source: Source, slot: int, report: Report) -> None:
        said = report.missing
        if isinstance(report.found, Stacks):
            self._found.stacks[slot] = report.found
        if report.found is not None and source.file:
            try:
                findings.write(self._scene.folder(slot) / source.file, report.found)
            except OSError as error:
                said = (*said, f"{source.name}: {source.file} cannot be written: {error.strerror}")
        self._missing[slot][source.name] = said

    def _miss(self, name: str, why: str) -> None:
        """Say why this source told nothing of some ranks."""
        for said in self._missing.values():
            said.setdefault(name, (f"{name}: {why}",))

    def _close(self, why: str) -> None:
        for name in sorted(self._waiting):
            self._miss(name, why)
        for slot, said in self._missing.items():
            missing = self._found.missing[slot] = (*self._broken, *itertools.chain(*said.values()))
            with contextlib.suppress(OSError):
                summary = Summary(missing, self._found.took_s)
                findings.write(self._scene.folder(slot) / findings.SUMMARY_FILE, summary)

    def _since_start_s(self) -> float:
        return round(time.monotonic() - self._started, 4)


@dataclass(frozen=True, slots=True)
class _Came:
    """A report on one slot; or the end of a source, with what broke it, if anything did."""

    source: str
    slot: int
    what: Report | str


def _run(source: Source, scene: Scene, came: queue.SimpleQueue[_Came]) -> None:
    problem = ""
    try:
        for slot, report in source.gather(scene):
            came.put(_Came(source.name, slot, report))
    except Exception as error:  # noqa: BLE001 - also a plug-in's; the others are to be had all the same
        problem = f"{type(error).__name__}: {error}"
    came.put(_Came(source.name, -1, problem))


def tidy(arm_dir: Path, slots: Mapping[int, object]) -> None:
    """Remove what was made ready in the ranks' folders and never used."""
    for slot in slots:
        path = arm_dir / f"rank{slot}" / answering.STACKS_FILE
        with contextlib.suppress(OSError):
            if path.lstat().st_size == 0:
                path.unlink()
        with contextlib.suppress(OSError):
            path.with_name(f"{answering.RECORDER_FILE}.tmp").unlink()


@cache
def _known() -> tuple[tuple[Source, ...], tuple[str, ...]]:
    broken: tuple[str, ...] = ()
    try:
        names = REGISTRY.names()
    except BrokenPlugin as error:
        names, broken = REGISTRY.names(plugins=False), (str(error),)
    return tuple(cls() for name in names if (cls := REGISTRY.get(name)) is not None), broken


def _sources() -> tuple[tuple[Source, ...], tuple[str, ...]]:
    with _registering:  # several arms may be at their deadline
        return _known()


def _exchanges(asked: Asked) -> dict[int, Exchange]:
    found = {}
    for slot in asked.pids if asked.memfd >= 0 else ():
        with contextlib.suppress(OSError, ValueError):
            found[slot] = Exchange.of_supervisor(asked.memfd, slot)
    return found


def _is_readable(fd: int) -> bool:
    if fd < 0:
        return False
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
