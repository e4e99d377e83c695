"""Jobs whose keepers know one another before anything happens to them.

A keeper that a loaded machine holds up may not have said hello when its rank has formed the group: what then
befalls the job reaches it as the end of a connection, in other words than a test is about.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Mapping, Sequence

from guards.job import Ended, Job
from sidecar import kept_job

from chaoskit.guards import sidecar
from chaoskit.guards.sidecar import Sidecar
from chaoskit.model import Guard
from chaoskit.sidecar.keeper import Keeper, Watcher

_MOST = 16
_STRANGE, _KNOWN, _STOPPED = range(3)


class Acquaintance(Watcher):
    """Says, from every keeper, whom it knows. Made before the job starts; one for each job."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._said = mmap.mmap(-1, _MOST)

    def attach(self, keeper: Keeper) -> None:
        assert sidecar._here.protection is not None
        self._protection = sidecar._here.protection

    def tick(self, t: float) -> None:
        peers = self._protection._peers()
        wanted = self._ranks - 1 if self._protection.address is not None else 1
        known = len(peers) == wanted and all(peer.place.pid for peer in peers)
        if known:
            stopped = any(peer.stopped_at is not None for peer in peers)
            self._said[self._protection.identity.rank] = _STOPPED if stopped else _KNOWN

    def wait(self, limit_s: float = 60.0) -> None:
        """Wait until all know one another. In a rank or in the test."""
        self._until(lambda: _STRANGE not in self._said[: self._ranks], limit_s)

    def wait_stopped(self, rank: int, stopped: bool = True, limit_s: float = 60.0) -> None:
        """Wait until the keeper of ``rank`` sees a stopped one; or none any more."""
        self._until(lambda: (self._said[rank] == _STOPPED) == stopped, limit_s)

    def _until(self, true: Callable[[], bool], limit_s: float) -> None:
        until = time.monotonic() + limit_s
        while not true():
            assert time.monotonic() < until, f"keepers: {self._said[: self._ranks]!r}"
            time.sleep(0.005)


def start_kept(
    main: Callable[[], object],
    guard: Sidecar,
    *others: Guard,
    ranks: int = 3,
    env: Mapping[int, Mapping[str, str | None]] | None = None,
    stderr: int | None = None,
    watchers: Sequence[Watcher] = (),
) -> tuple[Job, Acquaintance]:
    """As that of kept_job; a rank that comes to the end of ``main`` ends once all keepers are acquainted."""
    all_know = Acquaintance(ranks)

    def acquainted_main() -> None:
        main()
        all_know.wait()

    mine = [all_know, *watchers]
    job = kept_job.start_kept(
        acquainted_main, guard, *others, ranks=ranks, env=env, stderr=stderr, watchers=mine
    )
    return job, all_know


def formed(job: Job, all_know: Acquaintance) -> list[int]:
    """Wait until the group has formed, and the keepers know one another; return the pids of the ranks."""
    ranks = kept_job.formed(job)
    all_know.wait()
    return ranks


def run_kept(main: Callable[[], object], guard: Sidecar, ranks: int = 3) -> list[Ended]:
    """Run the job to its end."""
    return start_kept(main, guard, ranks=ranks)[0].wait()


def alive(pids: Sequence[int]) -> bool:
    """Whether all of them still run, or wait: nobody has ended or stopped them."""
    return all(kept_job.state(pid) in ("R", "S", "D") for pid in pids)


def wait_until_reaped(pid: int, limit_s: float = 40.0) -> None:
    """Wait until its keeper knows that it has ended. A zombie may have threads that still run."""
    until = time.monotonic() + limit_s
    while kept_job.state(pid):
        assert time.monotonic() < until, f"process {pid} is still {kept_job.state(pid)}"
        time.sleep(0.005)


def wait_for_stop(pids: Sequence[int], limit_s: float = 40.0) -> None:
    """Wait until all are stopped."""
    until = time.monotonic() + limit_s
    while {kept_job.state(pid) for pid in pids} != {"T"}:
        assert time.monotonic() < until, [kept_job.state(pid) for pid in pids]
        time.sleep(0.005)
