"""The rules of the guard ``sidecar``, as values: no process, no socket, no clock is touched here.

:class:`RankPolicy` says when one rank no longer takes part although it is alive; every keeper asks it about
its own rank. :class:`JobPolicy` says when the job is over because of one of its ranks; only the keeper that
all others report to asks it. Times are CLOCK_MONOTONIC seconds of one machine; a wait of None or 0 is off.
"""

from __future__ import annotations

import dataclasses
import signal
from dataclasses import dataclass

SHORTEST_S = 2.0
LEAVING_S = 60.0
"""How long an interpreter may take to end, at the least: torch takes seconds on a loaded machine."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of the guard, see there."""

    on_failure: bool = True
    early_exit_wait_s: float | None = 60.0
    stopped_wait_s: float | None = 30.0
    gil_wait_s: float | None = 120.0
    progress_wait_s: float | None = None
    sigterm_wait_s: float | None = 20.0
    silent_s: float = 10.0
    grace_s: float = 0.5

    def noticeable(self) -> Limits:
        """Return these limits, none shorter than what a keeper that looks twice a second can tell apart."""
        gil_wait_s = max(self.gil_wait_s, SHORTEST_S) if self.gil_wait_s else self.gil_wait_s
        return dataclasses.replace(self, gil_wait_s=gil_wait_s, silent_s=max(self.silent_s, SHORTEST_S))


@dataclass(frozen=True, slots=True)
class Lost:
    """A rank that no longer takes part, and why in words that follow its name."""

    rank: int
    why: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What a keeper sees of its rank at one moment. ``beat`` and ``progress`` need only change when the rank
    moves; ``beat`` is 0 before the first and where the rank does not tell; so is ``progress``."""

    beat: int
    progress: int
    allowed_until: float
    excused: bool
    """Stopped, or held by a debugger: it cannot move and nobody should expect it to."""
    leaving: bool = False
    """Its interpreter ends: no Python runs any more."""


class RankPolicy:
    """Rules about one rank, for its own keeper."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last: Seen | None = None
        self._beat_since = 0.0
        self._progress_since = 0.0
        self._leaving_since = 0.0
        self._told_at: float | None = None

    def told_to_end(self, t: float) -> None:
        """A SIGTERM that the rank does not ignore was passed on to it."""
        self._told_at = t if self._told_at is None else self._told_at

    def postpone(self, seconds: float) -> None:
        """Nobody, this keeper neither, ran for so long (a suspended machine): it counts for nothing."""
        self._beat_since += seconds
        self._progress_since += seconds
        self._leaving_since += seconds
        self._told_at = self._told_at + seconds if self._told_at is not None else None

    def wrong(self, seen: Seen, t: float) -> str:
        """Return why the rank is lost; '' where it is not."""
        last, self._last = self._last, seen
        excused = last is None or seen.excused or t < seen.allowed_until
        if excused or not seen.leaving:
            self._leaving_since = t
        excused = excused or seen.leaving
        if excused or seen.beat == 0 or last is None or last.beat != seen.beat:
            self._beat_since = t
        if excused or not seen.progress or last is None or last.progress != seen.progress:
            self._progress_since = t
        limits = self._limits
        if _over(self._told_at, limits.sigterm_wait_s, t) and t >= seen.allowed_until:
            return f"got SIGTERM {limits.sigterm_wait_s:g} s ago and is still there"
        if _over(self._beat_since, limits.gil_wait_s, t):
            return f"has run no Python for {limits.gil_wait_s:g} s (something holds the GIL)"
        leaving_wait_s = limits.gil_wait_s and max(limits.gil_wait_s, LEAVING_S)
        if _over(self._leaving_since, leaving_wait_s, t):
            return f"began to end {leaving_wait_s:g} s ago and is still there"
        if _over(self._progress_since, limits.progress_wait_s, t):
            return f"has made no progress for {limits.progress_wait_s:g} s"
        return ""


class JobPolicy:
    """Rules about a job, for the keeper that all others report to."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: set[int] = set()
        self._ended = False  # some rank has
        self._stopped: dict[int, float] = {}
        self._waiting: dict[int, tuple[float, str]] = {}  # rank → when its loss counts, and why
        self._lost: Lost | None = None

    def joined(self, rank: int) -> None:
        """The rank runs, and its keeper reports."""
        self._running.add(rank)

    def ended(self, rank: int, exit_code: int, work_done: bool, told: bool, t: float) -> None:
        """The rank ended; ``told``: told to end from outside, so that others may be about to end too."""
        self._gone(rank)
        limits = self._limits
        if exit_code == 0 and work_done:
            return
        if told and limits.on_failure and limits.sigterm_wait_s:
            why = f"{ended_how(exit_code)} after it was told to end, {limits.sigterm_wait_s:g} s ago"
            self._waiting[rank] = (t + limits.sigterm_wait_s, why)
        elif exit_code == 0 and limits.early_exit_wait_s:
            why = f"left with exit 0 before its work was done, {limits.early_exit_wait_s:g} s ago"
            self._waiting[rank] = (t + limits.early_exit_wait_s, why)
        elif exit_code != 0 and limits.on_failure:
            self.lost(rank, ended_how(exit_code))

    def lost(self, rank: int, why: str) -> None:
        """The rank can no longer take part, or its keeper is gone."""
        self._gone(rank)
        self._lost = self._lost or Lost(rank, why)

    def left(self, rank: int) -> None:
        """Its keeper was told to leave and will report no more."""
        self._gone(rank)

    def stopped(self, rank: int, t: float) -> None:
        if rank in self._running:
            self._stopped.setdefault(rank, t)

    def continued(self, rank: int, t: float) -> None:
        """Others that stay stopped are timed from now: they were part of a suspended job until here."""
        suspended = self._suspended()
        self._stopped.pop(rank, None)
        if suspended:
            self._stopped = dict.fromkeys(self._stopped, t)

    def postpone(self, seconds: float) -> None:
        """Nobody ran for so long: it counts for nothing."""
        self._stopped = {rank: t + seconds for rank, t in self._stopped.items()}
        self._waiting = {rank: (at + seconds, why) for rank, (at, why) in self._waiting.items()}

    def verdict(self, t: float) -> Lost | None:
        """Return the rank because of which the job is to be ended now."""
        for at, lost in self._waits():
            if self._lost is None and at <= t:
                self._lost = lost
        return self._lost

    def next_due(self) -> float | None:
        return min((at for at, _ in self._waits()), default=None)

    def _waits(self) -> list[tuple[float, Lost]]:
        """What becomes due, soonest first. A rank that nobody runs beside harms nobody."""
        if not self._running:
            return []
        waits = [(at, Lost(rank, why)) for rank, (at, why) in self._waiting.items()]
        wait_s = self._limits.stopped_wait_s
        if wait_s and not self._suspended():
            why = f"has been stopped for {wait_s:g} s"
            waits += [(since + wait_s, Lost(rank, why)) for rank, since in self._stopped.items()]
        return sorted(waits, key=lambda wait: wait[0])

    def _suspended(self) -> bool:
        """All ranks are stopped: somebody suspended the job. A single one that remains is no job."""
        whole = len(self._running) > 1 or not self._ended
        return whole and bool(self._stopped) and len(self._stopped) == len(self._running)

    def _gone(self, rank: int) -> None:
        self._ended = True
        self._running.discard(rank)
        self._stopped.pop(rank, None)


def ended_how(exit_code: int) -> str:
    """Return how a process ended, in words that follow its name."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"


def _over(since: float | None, wait_s: float | None, t: float) -> bool:
    return since is not None and bool(wait_s) and t - since >= (wait_s or 0.0)
