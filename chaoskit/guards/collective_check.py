"""Compares, across ranks, which collectives are entered in which order, and ends a job in which they
differ."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from chaoskit import progress
from chaoskit.guards import torch_hooks, uncaught
from chaoskit.guards.comparison import GroupKey
from chaoskit.guards.context import GuardContext
from chaoskit.guards.failure import category
from chaoskit.guards.side_channel import Collector, Reporter
from chaoskit.model import Guard

if TYPE_CHECKING:
    from torch.distributed import Work

    from chaoskit.intercept import Call, Proceed

_POINT_TO_POINT = {"send", "recv", "coalesced"}
_LAST_WORD_S = 0.15


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
    bounds how long a difference waits for the members not yet heard, so that a majority can be told.

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
        check = _Check(self, rank)
        intercept.add(check)
        torch_hooks.around_init(check)
        torch_hooks.replace("destroy_process_group", check.before_destroy)
        uncaught.on_uncaught(check.last_word, rank, priority=0)
        atexit.register(check.leave)
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
        self._guard = guard
        self._rank = rank
        self._groups: dict[GroupKey, _Group] = {}
        self._reporter: Reporter | None = None
        self._collector: Collector | None = None
        self._formed = 0
        self._process = os.getpid()

    # ---- intercept

    def around(self, call: Call, proceed: Proceed) -> Work | None:
        reporter = self._reporter
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
            agreed = reporter.wait_agreed(key, index, self._guard.hold_s)
            if agreed and not reporter.over.is_set():
                group.seen.add(step)
        if reporter.mismatch:
            threading.Event().wait()  # the watching thread is ending this process
        return proceed()

    def done(self, call: Call, error: BaseException | None) -> None:
        """What counts is who entered what."""

    # ---- torch_hooks

    def before_init(self, given: dict[str, Any]) -> None:
        self._groups.clear()

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        import torch.distributed as dist
        from torch.distributed import distributed_c10d as c10d

        if error is not None or dist.get_world_size() < 2:
            return
        self._formed += 1
        store = c10d._get_default_store()
        key = f"chaoskit/collective_check/{self._formed}"
        if dist.get_rank() == 0:
            self._collector = Collector(self._guard.settle_s)
            self._collector.start()
            host = os.environ.get("MASTER_ADDR") or socket.gethostname()
            store.set(key, f"{host} {self._collector.port} {self._collector.token}")
        host, port, token = store.get(key).decode().split()
        try:
            reporter = Reporter((host, int(port)), token, dist.get_rank(), connect_s=5.0)
        except OSError as why:
            self._rank.armed(
                self._guard.name, (f"not in effect: rank 0 cannot be reached ({why})",), applicable=False
            )
            return
        reporter.start()
        threading.Thread(
            target=self._watch, args=(reporter,), name="chaoskit collective_check end", daemon=True
        ).start()
        self._reporter = reporter

    def before_destroy(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in front of ``destroy_process_group``: compare to the end first."""

        def destroy_process_group(group: Any = None) -> Any:
            import torch.distributed as dist

            if group is None or group is dist.group.WORLD:
                self.leave()
            return original(group)

        return destroy_process_group

    # ---- the end

    def leave(self) -> None:
        """Say what this rank entered in all, and wait until all of it has been compared."""
        reporter, self._reporter = self._reporter, None
        if reporter is None or os.getpid() != self._process or isinstance(sys.exc_info()[1], Exception):
            return
        counts = [[*group.key, group.count] for group in self._groups.values()]
        reporter.say(["leave", counts], now=True)
        if not _either(reporter.clean, reporter.over, self._guard.exit_wait_s) and not reporter.over.is_set():
            self._rank.armed(
                self._guard.name, (f"not compared to the end within {self._guard.exit_wait_s:g} s",)
            )
        if reporter.mismatch:
            threading.Event().wait()
        if self._collector is not None:  # the others still need it
            _either(self._collector.idle, reporter.over, self._guard.exit_wait_s)

    def last_word(self, error: BaseException, where: uncaught.Where) -> uncaught.Ending | None:
        """A peer that this guard has just ended looks like a lost one: the reason may be on its way."""
        reporter = self._reporter
        if reporter is not None and category(error) in ("peer_lost", "timeout", "mismatch"):
            reporter.over.wait(_LAST_WORD_S)
            if reporter.mismatch:
                return self._ending(reporter)
        return None

    def _watch(self, reporter: Reporter) -> None:
        reporter.over.wait()
        if not reporter.mismatch:
            return
        if self._collector is not None:
            # Closing with unread data resets connections, and could take the message from the others.
            self._collector.join(1.0)
            threading.Event().wait(_LAST_WORD_S)
        uncaught.end(self._rank, self._ending(reporter))

    def _ending(self, reporter: Reporter) -> uncaught.Ending:
        hint = "all ranks of a group must enter the same operations in the same order"
        return uncaught.Ending(CollectiveCheck.name, 87, f"{reporter.mismatch}; {hint}")


def _either(one: threading.Event, other: threading.Event, seconds: float) -> bool:
    """Wait until ``one`` is set; gives up when ``other`` is, or after ``seconds``."""
    slices = max(1, int(seconds / 0.005))
    return any(one.wait(0.005) or other.is_set() for _ in range(slices)) and one.is_set()
