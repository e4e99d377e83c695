"""A guard that compares ranks, in one rank: the side channel is opened when the process group has formed and
waited for before the rank may leave; a difference ends the rank.

What is compared is the guard's business. May not touch a process group.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from chaoskit.guards import torch_hooks, uncaught
from chaoskit.guards.comparison import GroupKey
from chaoskit.guards.context import GuardContext
from chaoskit.guards.failure import category
from chaoskit.guards.side_channel import Collector, Compares, Reporter

_LAST_WORD_S = 0.15
"""How long a rank that lost a peer waits for the reason."""
_READ_S = 0.15
"""How long rank 0 leaves the others to read it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is particular to a guard. ``hint`` follows what was found, in the line on stderr."""

    guard: str
    exit_code: int
    hint: str
    settle_s: float
    exit_wait_s: float
    compares: Callable[[], Compares]


class Counting(Protocol):
    """The guard's own side of it."""

    def formed(self) -> None:
        """A process group is about to form: what was said before counts no longer."""

    def counts(self) -> list[tuple[GroupKey, int]]:
        """How much this rank has said in all, for each group."""


class Comparing:
    """One guard's comparison in this process, over as many process groups as the script forms in turn.

    ``reporter`` is there while there is something to compare with.
    """

    def __init__(self, terms: Terms, rank: GuardContext, counting: Counting) -> None:
        self.reporter: Reporter | None = None
        self._terms = terms
        self._rank = rank
        self._counting = counting
        self._collector: Collector | None = None
        self._formed = 0
        self._process = os.getpid()

    def start(self) -> None:
        """Stand around the forming and the end of process groups."""
        torch_hooks.around_init(self)
        torch_hooks.replace("destroy_process_group", self._before_destroy)
        uncaught.on_uncaught(self._last_word, self._rank, priority=0)
        atexit.register(self.leave)

    def stop_if_over(self) -> None:
        """Go no further where a difference is known: the watching thread is ending this process."""
        if self.reporter is not None and self.reporter.mismatch:
            threading.Event().wait()

    # ---- torch_hooks

    def before_init(self, given: dict[str, Any]) -> None:
        self._counting.formed()

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        import torch.distributed as dist
        from torch.distributed import distributed_c10d as c10d

        if error is not None or dist.get_world_size() < 2:
            return
        self._formed += 1
        store = c10d._get_default_store()
        key = f"chaoskit/{self._terms.guard}/{self._formed}"
        if dist.get_rank() == 0:
            self._collector = Collector(self._terms.guard, self._terms.settle_s, self._terms.compares())
            self._collector.start()
            host = os.environ.get("MASTER_ADDR") or socket.gethostname()
            store.set(key, f"{host} {self._collector.port} {self._collector.token}")
        host, port, token = store.get(key).decode().split()
        try:
            reporter = Reporter(self._terms.guard, (host, int(port)), token, dist.get_rank(), connect_s=5.0)
        except OSError as why:
            said = f"not in effect: rank 0 cannot be reached ({why})"
            self._rank.armed(self._terms.guard, (said,), applicable=False)
            return
        reporter.start()
        name = f"chaoskit {self._terms.guard} end"
        threading.Thread(target=self._watch, args=(reporter,), name=name, daemon=True).start()
        self.reporter = reporter

    def _before_destroy(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in front of ``destroy_process_group``: compare to the end first."""

        def destroy_process_group(group: Any = None) -> Any:
            import torch.distributed as dist

            if group is None or group is dist.group.WORLD:
                self.leave()
            return original(group)

        return destroy_process_group

    # ---- the end

    def leave(self) -> None:
        """Say how much this rank said in all, and wait until all of it has been compared."""
        reporter, self.reporter = self.reporter, None
        if reporter is None or os.getpid() != self._process or isinstance(sys.exc_info()[1], Exception):
            return
        wait_s = self._terms.exit_wait_s
        reporter.say(["leave", [[*key, count] for key, count in self._counting.counts()]], now=True)
        if not _either(reporter.clean, reporter.over, wait_s) and not reporter.over.is_set():
            self._rank.armed(self._terms.guard, (f"not compared to the end within {wait_s:g} s",))
        if reporter.mismatch:
            threading.Event().wait()
        if self._collector is not None:  # the others still need it
            _either(self._collector.idle, reporter.over, wait_s)

    def _last_word(self, error: BaseException, where: uncaught.Where) -> uncaught.Ending | None:
        """A peer that this guard has just ended looks like a lost one: the reason may be on its way."""
        reporter = self.reporter
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
            threading.Event().wait(_READ_S)
        uncaught.end(self._rank, self._ending(reporter))

    def _ending(self, reporter: Reporter) -> uncaught.Ending:
        said = f"{reporter.mismatch}; {self._terms.hint}"
        return uncaught.Ending(self._terms.guard, self._terms.exit_code, said, local=reporter.is_odd)


def _either(one: threading.Event, other: threading.Event, seconds: float) -> bool:
    """Wait until ``one`` is set; gives up when ``other`` is, or after ``seconds``."""
    slices = max(1, int(seconds / 0.005))
    return any(one.wait(0.005) or other.is_set() for _ in range(slices)) and one.is_set()
