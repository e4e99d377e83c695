"""The launcher's rule for ending a whole job, as values: no process, no clock, no signal is touched here.

Whoever is the parent of the ranks (torchrun, a sidecar, chaoskit's warden) feeds a
:class:`GroupKillPolicy` with what it sees and carries out what the policy says is due.
"""

from __future__ import annotations

import dataclasses
import math
import signal as signals
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.model import Guard


@dataclass(frozen=True, slots=True)
class Kill:
    """Send ``signal`` to the process in ``slot``, or to every rank still alive where ``slot`` is None; with
    ``fence`` also to those on hosts that do not answer."""

    slot: int | None
    signal: int
    reason: str
    fence: bool = False


@dataclass(frozen=True, slots=True)
class GroupKill(Guard):
    """End every rank once one of them can no longer take part.

    - ``on_failure``: a rank ended nonzero. Acts at once.
    - ``on_early_exit``: a rank ended 0 without having finished its work, and ``early_exit_wait_s``
      later the others are still there.
    - ``on_stopped``: a rank has been stopped (SIGSTOP) for ``stopped_wait_s`` while others run. A
      stopped process cannot act on SIGTERM, so it gets SIGKILL at once. A job that is stopped as a
      whole is a suspended job and is left alone.
    - ``host_silent_s``: a launcher pings its hosts, and one does not answer for so long. It is taken away,
      with what runs on it, and the job is ended. Unset: never, as under torchrun. Slurm does it after
      300 s (``SlurmdTimeout``) unless a job asks for ``--no-kill``; Kubernetes gives a node 40 to 50 s
      (``node-monitor-grace-period``) and its pods 300 s more. Until then nobody learns what became of the
      ranks there, and no signal reaches them, whatever ended the others. A host that answers again in time
      is forgiven, and one on which all ranks had ended 0 with their work done is not missed.

    ``signal`` goes to every rank first, SIGKILL ``grace_s`` later: a rank that holds the GIL or
    swallows SIGTERM ends then. ``poll_s`` > 0 models a launcher that looks only every so often
    (torchrun: 0.1 s); 0 reacts at once.

    The guard itself ends ranks by signals, and a launcher exits nonzero when it did so.
    """

    name: ClassVar[str] = "group_kill"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "launcher"
    exit_codes: ClassVar[dict[int, str]] = {
        -signals.SIGTERM: "ended by the launcher because another rank can no longer take part",
        -signals.SIGKILL: "ended by the launcher after the grace period",
    }

    on_failure: bool = True
    on_early_exit: bool = False
    early_exit_wait_s: float = 60.0
    on_stopped: bool = False
    stopped_wait_s: float = 60.0
    signal: str = "SIGTERM"
    grace_s: float = 30.0
    poll_s: float = 0.0
    host_silent_s: float | None = None

    def __post_init__(self) -> None:
        if self.signal not in signals.Signals.__members__:
            raise ValueError(
                f"group_kill: signal: {self.signal!r} is no signal; expected a name such as SIGTERM"
            )

    def policy(self, ranks: int = 0) -> GroupKillPolicy:
        """Return a fresh policy for a job of ``ranks`` processes (0: not known)."""
        return GroupKillPolicy(self, ranks)


@dataclass(frozen=True, slots=True)
class _Silent:
    """A host that does not answer: since when, and how long it is waited for."""

    host: str
    slots: tuple[int, ...]
    since: float
    wait_s: float

    @property
    def until(self) -> float:
        return self.since + self.wait_s

    @property
    def reason(self) -> str:
        return f"{self.host} has not answered for {self.wait_s:g} s"

    def fence(self, t: float) -> list[tuple[float, Kill]]:
        """What is due once the host is given up, but not before ``t``."""
        at = max(t, self.until)
        return [(at, Kill(slot, signals.SIGKILL, self.reason, fence=True)) for slot in self.slots]


class GroupKillPolicy:
    """What the rule says about one job. Times are any monotonic clock, the same for all calls.

    The parent calls ``on_*`` as it sees things, then ``due(now)`` and carries out what that
    returns; ``next_due()`` is when to ask again even if nothing happens.
    """

    def __init__(self, rule: GroupKill, ranks: int = 0) -> None:
        self._rule = rule
        self._ranks = ranks
        self._ended: set[int] = set()
        self._done: set[int] = set()  # of these, those that ended 0 with their work done
        self._stopped: dict[int, float] = {}  # slot → since when
        self._early: dict[int, float] = {}  # slot → when it left
        self._silent: dict[str, _Silent] = {}  # by host
        self._plan: list[tuple[float, Kill]] = []
        self._triggered = False

    @property
    def triggered(self) -> bool:
        """True once the rule has decided to end the job; the launcher then exits nonzero."""
        return self._triggered

    def on_end(self, slot: int, exit_code: int, work_done: bool, t: float) -> None:
        """The process in ``slot`` ended. ``exit_code`` is negative for a signal."""
        self._ended.add(slot)
        self._stopped.pop(slot, None)
        if exit_code == 0 and work_done:
            self._done.add(slot)
        if exit_code != 0 and self._rule.on_failure:
            self._trigger(self._seen(t), f"process {slot} {ended_how(exit_code)}")
        elif exit_code == 0 and not work_done and self._rule.on_early_exit:
            self._early.setdefault(slot, t)

    def on_stop(self, slot: int, t: float) -> None:
        """The process in ``slot`` was stopped."""
        if self._rule.on_stopped and slot not in self._ended:
            self._stopped.setdefault(slot, t)
            if self._triggered:  # the coming SIGTERM or the one already sent cannot reach it
                self._plan.append((t, Kill(slot, signals.SIGKILL, f"process {slot} is stopped")))

    def on_continue(self, slot: int, t: float) -> None:
        """The process in ``slot`` goes on. Others that stay stopped are timed from now: they were
        part of a suspended job until here."""
        suspended = self._all_stopped()
        self._stopped.pop(slot, None)
        if suspended:
            self._stopped = dict.fromkeys(self._stopped, t)

    def on_host_lost(self, host: str, slots: Sequence[int], t: float) -> None:
        """``host`` with the processes in ``slots`` does not answer from ``t`` on."""
        if self._rule.host_silent_s is None or self._done.issuperset(slots):
            return  # with it nothing is lost
        self._silent[host] = _Silent(host, tuple(slots), t, self._rule.host_silent_s)
        if self._triggered:
            self._plan += self._silent[host].fence(t)

    def on_host_back(self, host: str, t: float) -> None:
        """``host`` answers again: what has been decided meanwhile is carried out there too."""
        silent = self._silent.pop(host, None)
        if silent is None:
            return
        self._plan = [(at, kill) for at, kill in self._plan if not (kill.fence and kill.slot in silent.slots)]
        if self._triggered:
            reason = f"{host} answers again; the job is being ended"
            self._plan += [(t, Kill(slot, signals.SIGKILL, reason)) for slot in silent.slots]

    def due(self, t: float) -> list[Kill]:
        """Return what is to be sent now, each once."""
        for at, reason in self._waits():
            if at <= t:
                self._trigger(max(self._seen(at), t), reason)
        now = [kill for at, kill in self._plan if at <= t]
        self._plan = [(at, kill) for at, kill in self._plan if at > t]
        return [kill for kill in now if kill.slot is None or kill.slot not in self._ended]

    def next_due(self) -> float | None:
        """Return the time of the next thing that becomes due, None when there is none."""
        times = [at for at, _ in self._plan] + [at for at, _ in self._waits()]
        return min(times, default=None)

    def _waits(self) -> list[tuple[float, str]]:
        """The rules that are waiting, with the time at which they act and the reason they give."""
        if self._triggered:
            return []
        rule = self._rule
        waits = [
            (since + rule.early_exit_wait_s, f"process {slot} left with exit 0 before its work was done")
            for slot, since in self._early.items()
        ]
        waits += [(silent.until, silent.reason) for silent in self._silent.values()]
        if not self._all_stopped():
            waits += [
                (
                    since + rule.stopped_wait_s,
                    f"process {slot} has been stopped for {rule.stopped_wait_s:g} s",
                )
                for slot, since in self._stopped.items()
            ]
        return waits

    def _all_stopped(self) -> bool:
        """A job stopped as a whole was suspended by someone; known only where ``ranks`` is, and not for one
        rank."""
        alive = self._ranks - len(self._ended)
        return self._ranks > 1 and len(self._stopped) >= alive > 0 and not self._ended

    def _seen(self, t: float) -> float:
        """When a launcher that polls sees what happened at ``t``."""
        poll = self._rule.poll_s
        return math.ceil(t / poll) * poll if poll > 0 else t

    def _trigger(self, t: float, reason: str) -> None:
        if self._triggered:
            return
        self._triggered = True
        first = signals.Signals[self._rule.signal]
        self._plan += [(t, Kill(slot, signals.SIGKILL, reason)) for slot in sorted(self._stopped)]
        for silent in self._silent.values():
            self._plan += silent.fence(t)
        self._plan.append((t, Kill(None, first, reason)))
        if first != signals.SIGKILL:
            late = dataclasses.replace(
                self._plan[-1][1],
                signal=signals.SIGKILL,
                reason=f"{reason}; alive {self._rule.grace_s:g} s after {first.name}",
            )
            self._plan.append((t + self._rule.grace_s, late))


def ended_how(exit_code: int) -> str:
    """Return in words how a process ended; ``exit_code`` is negative for a signal."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was ended by {signals.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"
