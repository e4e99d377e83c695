"""Compares, across ranks, which collectives are entered in which order, and ends a job in which they
differ."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from chaoskit import progress
from chaoskit.guards.comparing import Comparing, Terms
from chaoskit.guards.comparison import Comparison, GroupKey
from chaoskit.guards.context import GuardContext
from chaoskit.model import Guard

if TYPE_CHECKING:
    from torch.distributed import Work

    from chaoskit.intercept import Call, Proceed

_POINT_TO_POINT = {"send", "recv", "coalesced"}
_HINT = "all ranks of a group must enter the same operations in the same order"


@dataclass(frozen=True, slots=True)
class CollectiveCheck(Guard):
    """Operation n of a group must be the same on all of its members: op, reduce operator, root, dtype and
    shape, where these may not differ. Where they do not agree every rank exits 87 with one line naming the
    odd ones out::

        rank 1 entered barrier #3 where ranks 0, 2, 3 entered all_reduce #12 (step 5)

    Finds without waiting for any timeout: an operation skipped, added or swapped on one rank (as soon as
    that rank enters a different one, or leaves the group with others still in it), and differing shapes and
    dtypes, also those that gloo would complete with garbage.

    How: each rank reports to rank 0 from a thread, over a connection beside the job's, so a collective pays
    microseconds. An operation that follows its predecessor for the first time in this group is *held* until
    all members agree, at most ``hold_s``: in a steady loop nothing is held, and a sudden other operation is
    stopped before it can abort a process or corrupt a result. Before ``destroy_process_group()`` and at
    exit a rank waits until everything it entered has been compared, at most ``exit_wait_s``. ``settle_s``
    bounds how long a difference waits for the members not yet heard, so that a majority can be told, and how
    long a rank at its end waits for the others to come to theirs: one that skipped an operation comes early.

    Not found: a skipped operation among equal ones before the job's end (what follows is the same); uneven
    point-to-point operations; anything while rank 0 holds the GIL or is stopped. Two ranks that differ are
    both named: nobody can tell. Every rank needs this guard, and ranks must reach rank 0 on a free port.
    """

    name: ClassVar[str] = "collective_check"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {87: "the ranks entered different collectives"}

    hold_s: float = 20.0
    settle_s: float = 5.0
    exit_wait_s: float = 30.0

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Listen to every collective, inside those who listen already."""
        from chaoskit import intercept

        intercept.install()
        intercept.add(_Check(self, rank))
        return (f"hold={self.hold_s:g}s", f"settle={self.settle_s:g}s", f"exit_wait={self.exit_wait_s:g}s")


class _Group:
    """One group as this rank uses it."""

    __slots__ = ("count", "key", "lock", "previous", "seen")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.count = 0
        self.previous = 0
        self.seen: set[tuple[int, int]] = set()
        self.lock = threading.Lock()  # autograd's threads issue collectives too


class _Check:
    """The check in one rank, over as many process groups as the script forms one after the other."""

    def __init__(self, guard: CollectiveCheck, rank: GuardContext) -> None:
        self._hold_s = guard.hold_s
        self._groups: dict[GroupKey, _Group] = {}
        terms = Terms(guard.name, 87, _HINT, guard.settle_s, guard.exit_wait_s, Comparison)
        self._comparing = Comparing(terms, rank, self)
        self._comparing.start()

    # ---- intercept

    def around(self, call: Call, proceed: Proceed) -> Work | None:
        reporter = self._comparing.reporter
        if reporter is None or call.op in _POINT_TO_POINT or len(call.group_ranks) < 2:
            return proceed()
        key = (call.group, call.group_ranks)
        group = self._groups.get(key) or self._groups.setdefault(key, _Group(key))
        fingerprint = call.fingerprint()
        with group.lock:
            group.count = index = group.count + 1
            step = (group.previous, fingerprint)
            group.previous = fingerprint
        first = next(iter(call.tensors), None)
        what = "" if first is None else f"{str(first.dtype).removeprefix('torch.')}{list(first.shape)}"
        reporter.say(["enter", *key, index, fingerprint, call.op, call.nth, what, progress.steps()])
        if step not in group.seen and not reporter.over.is_set():
            agreed = reporter.wait_agreed(key, index, self._hold_s)
            if agreed and not reporter.over.is_set():
                group.seen.add(step)
        if reporter.mismatch:
            self._comparing.stop_if_over()
        return proceed()

    def done(self, call: Call, error: BaseException | None) -> None:
        """What counts is who entered what."""

    # ---- comparing

    def formed(self) -> None:
        self._groups.clear()

    def counts(self) -> list[tuple[GroupKey, int]]:
        return [(group.key, group.count) for group in self._groups.values()]
