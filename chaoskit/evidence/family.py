"""The family of evidence sources: what each is given, and what it gives back.

A new source is one file with one subclass of :class:`Source`, named after it, or an entry point of the group
``chaoskit.evidence``. It looks from outside and ends nothing. What a rank does to mislead it (names, output,
a death in the middle) is data; it says what it could not get, and why, and never raises for a rank.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from chaoskit.rank.exchange import Exchange
from chaoskit.registry import Registry

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True)
class Scene:
    """The arm as it is at its deadline. ``pids``: of the ranks that live, by slot.

    A source has to be done by ``until_s`` (CLOCK_MONOTONIC), and soon after ``stop`` is set: nobody waits
    for what it gives after that. ``store_port``: of the job's store, 0 where that is not known. ``native``:
    frames of native code are asked for.
    """

    arm_dir: Path
    pids: Mapping[int, int]
    until_s: float
    exchanges: Mapping[int, Exchange] = field(default_factory=dict)
    store_port: int = 0
    native: bool = False
    stop: threading.Event = field(default_factory=threading.Event)

    def folder(self, slot: int) -> Path:
        """Return where the files of this rank lie."""
        return self.arm_dir / f"rank{slot}"

    @property
    def left_s(self) -> float:
        """How much time there still is; 0 where nobody waits any more."""
        return 0.0 if self.stop.is_set() else max(0.0, self.until_s - time.monotonic())


@dataclass(frozen=True, slots=True)
class Report:
    """What one source found out about one rank. ``found`` is written as JSON into the source's file."""

    found: DataclassInstance | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """One way to find something out. ``file``: in ``rank<N>/``, "" where the source needs none written.

    ``first``: it reads what the kernel has ready, and the others begin after it: starting programs would
    hold it up many times as long as it takes.
    """

    name: ClassVar[str]
    file: ClassVar[str] = ""
    first: ClassVar[bool] = False

    def gather(self, scene: Scene) -> Iterable[tuple[int, Report]]:
        """Give what is found out about each rank of ``scene``, by slot, as soon as it is there: what has come
        by the end of the time is kept. A second report on a rank replaces the first."""
        raise NotImplementedError


def _check(cls: type[Source]) -> str:
    if cls.gather is Source.gather:
        return "must implement gather()"
    if "/" in str(cls.file):
        return "file must be the name of a file in the rank's folder"
    if not (cls.__doc__ or "").strip() and sys.flags.optimize < 2:  # -OO takes docstrings away
        return "needs a docstring: it is the source's documentation"
    return ""


REGISTRY: Registry[Source] = Registry("chaoskit.evidence", Source, _check)
