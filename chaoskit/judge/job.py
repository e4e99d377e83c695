"""The history of one arm seen rank by rank: the form in which every rule reads it.

Built from a *blind* history for blame, and from the full one for outcome and contract. Holds no
opinion of its own about who did what.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaoskit.history import (
    Completed,
    DeadlineReached,
    Ended,
    Entered,
    Event,
    Finished,
    GuardArmed,
    GuardFired,
    History,
    Identity,
    LauncherEnded,
    LauncherStarted,
    LeftOut,
    LinkChanged,
    Lost,
    OpFailed,
    ParameterSum,
    PathTested,
    Raised,
    Reaped,
    Replicated,
    Reported,
    Sampled,
    Signalled,
    Started,
    Stopped,
)

P2P = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv", "coalesced"})
"""Operations that differ between ranks by nature."""
OUTSIDE = "launcher"
"""What a rank's keeper calls whoever sent a signal to it (see chaoskit/rank/__main__.py)."""
LAUNCHER_GRACE_S = 5.0
"""A launcher's SIGKILL follows its SIGTERM after at least that long (torchrun: 30 s)."""


@dataclass(frozen=True, slots=True)
class RankView:
    """All that is known of one process. ``rank`` is the RANK it claims, else its slot."""

    slot: int
    rank: int
    identity: Identity | None
    entered: tuple[Entered, ...]
    completed: frozenset[int]  # seq numbers
    completions: tuple[Completed, ...]
    failed: tuple[OpFailed, ...]
    raised: Raised | None
    armed: tuple[GuardArmed, ...]
    fired: GuardFired | None
    signals: tuple[Signalled, ...]  # of the launcher, or passed on by the rank's keeper
    ended: Ended | None
    stops: tuple[Stopped, ...]  # and the ends of stops
    stopped: Stopped | None  # the last stop it did not come out of
    finished: Finished | None
    reported: Reported | None
    replicated: tuple[Replicated, ...]
    parameters: tuple[ParameterSum, ...]  # of those that differ, where any does for the first time
    samples: tuple[Sampled, ...]  # up to the deadline
    stack: tuple[str, ...]  # the newest one, innermost first; that is after the deadline
    last_site: str  # the user's line in the newest sample, those after the deadline included
    outlived: bool  # alive when the deadline came, whatever ended it then
    lost: int
    left_out: int = 0  # of a large history: settled operations (see chaoskit.judge.condensing)
    messages_left_out: int = 0  # of these, sends and receives
    whole_since_s: float = float("-inf")  # nothing was left out from then on

    @property
    def host(self) -> str:
        """The host it runs on, as that calls itself; '' where the rank never said."""
        return self.identity.host if self.identity is not None else ""

    @property
    def signalled(self) -> Signalled | None:
        return self.signals[0] if self.signals else None

    @property
    def last(self) -> Entered | None:
        return self.entered[-1] if self.entered else None

    @property
    def waiting(self) -> Entered | None:
        """The operation this rank sits in: entered, neither completed nor failed.

        Of its main thread's, if that is in one: another thread may stand in a recv all the time.
        """
        main = next((e for e in reversed(self.entered) if e.thread == 0), None)
        failed = {f.seq for f in self.failed}
        for last in (main, self.last):
            if last is not None and last.seq not in self.completed and last.seq not in failed:
                return last
        return None

    @property
    def ended_itself(self) -> bool:
        """True when the process is gone and nothing of ours sent the signal."""
        return self.ended is not None and self.ended.by == ""

    @property
    def alive_at_deadline(self) -> bool:
        return self.ended is None or self.outlived or self.ended.by == "supervisor"

    @property
    def work_done(self) -> bool:
        """The script is at its end, or was seen in the call with which it gives up its process group."""
        if self.finished is not None:
            return True
        leaving = any(f.startswith("destroy_process_group ") for f in self.stack)
        return leaving and self.alive_at_deadline and self.waiting is None and not self.failed

    @property
    def exit_code(self) -> int | None:
        return None if self.ended is None else self.ended.exit_code

    @property
    def is_victim_by_error(self) -> bool:
        """True when the first thing that went wrong here was another rank's doing, as far as it shows."""
        if self.raised is not None:
            return self.raised.category in ("peer_lost", "timeout", "mismatch")
        return bool(self.failed)

    @property
    def unbroken(self) -> tuple[Entered, ...]:
        """The operations entered before the first that failed: what came later is consequence."""
        if not self.failed:
            return self.entered
        first = min(f.t_s for f in self.failed)
        return tuple(e for e in self.entered if e.t_s <= first)

    @property
    def last_line(self) -> str:
        """The user's line this rank was last seen at."""
        if self.raised is not None and self.raised.site:
            return self.raised.site
        if self.last_site:
            return self.last_site
        return self.last.site if self.last else ""


@dataclass(frozen=True, slots=True)
class Job:
    """The ranks of one arm in order of slot, and what was seen of the network between their hosts.

    ``external``: a launcher of the user's choice started them. ``begun_s``: when the first was started.
    """

    ranks: tuple[RankView, ...]
    external: bool = False
    launcher: LauncherEnded | None = None
    links: tuple[LinkChanged, ...] = ()
    paths: tuple[PathTested, ...] = ()
    begun_s: float = 0.0

    @classmethod
    def of(cls, history: History) -> Job:
        history = settled(history)
        by_slot: dict[int, list[Event]] = {slot: [] for slot in history.slots}
        for event in history.events:
            if event.slot in by_slot:
                by_slot[event.slot].append(event)
        final = next((d.t_s for d in history.all(DeadlineReached) if d.final), float("inf"))
        ranks = tuple(_view(slot, events, final) for slot, events in by_slot.items())
        external = bool(history.all(LauncherStarted)) or any(
            (v.identity is not None and v.identity.launcher == "torchrun")
            or any(s.guard == OUTSIDE for s in v.signals)
            for v in ranks
        )
        return cls(
            ranks,
            external,
            launcher=next(iter(history.all(LauncherEnded)), None),
            links=tuple(history.all(LinkChanged)),
            paths=tuple(history.all(PathTested)),
            begun_s=started_at(history),
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that have ranks, in order of these."""
        return tuple(dict.fromkeys(v.host for v in self.ranks if v.host))

    def on(self, host: str) -> tuple[RankView, ...]:
        """Return the ranks on ``host``."""
        return tuple(v for v in self.ranks if v.host == host)

    @property
    def has_formed(self) -> bool:
        """Did the process group form on some rank?"""
        return any(e.op == "init" and e.seq in v.completed for v in self.ranks for e in v.entered)

    def view(self, slot: int) -> RankView:
        return next(v for v in self.ranks if v.slot == slot)

    def claiming(self, rank: int) -> tuple[RankView, ...]:
        """Return the processes that claim ``rank`` (two, where a rank is duplicated)."""
        return tuple(v for v in self.ranks if v.rank == rank)

    def ended_by_launcher(self, view: RankView) -> bool:
        """Did this rank die of the signals with which its launcher ends a job that has lost a rank?

        A launcher of chaoskit's own says so in the history; for one of the user's the order tells. A death by
        SIGKILL may be reported late, while its memory is torn down, so there the others have to be long gone.
        """
        ended = view.ended
        if ended is None or self.told_from_outside(view):
            return False
        if ended.by == "launcher":
            return True
        if any(s.signal == -ended.exit_code and s.t_s <= ended.t_s for s in view.signals):
            return True
        after_s = {-signal.SIGTERM: 0.0, -signal.SIGKILL: LAUNCHER_GRACE_S}.get(ended.exit_code)
        return self.external and after_s is not None and self.lost_before(view, ended.t_s - after_s)

    def told_from_outside(self, view: RankView) -> bool:
        """Was this rank, under a launcher of the user's, told to end before the job had lost any?

        A keeper cannot see who sends a signal. Without a lost rank a launcher has no reason of its own.
        """
        told = view.signalled
        return (
            self.external
            and told is not None
            and told.guard == OUTSIDE
            and not self.lost_before(view, told.t_s)
        )

    def lost_before(self, view: RankView, t_s: float) -> bool:
        """Had another rank ended nonzero by then, so that a launcher had a reason to end this one?"""
        others = (v.ended for v in self.ranks if v.slot != view.slot)
        return any(e is not None and e.exit_code != 0 and e.t_s < t_s for e in others)

    @property
    def groups(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Name and members (ranks) of every group in which an operation was entered.

        Groups without a rank in common (the rows of a device mesh) may have the same name.
        """
        known: dict[str, set[tuple[int, ...]]] = {}
        for view in self.ranks:
            for event in view.entered:
                known.setdefault(event.group, set()).add(event.members)
        everyone = tuple(sorted({v.rank for v in self.ranks}))
        return tuple(
            (group, members)
            for group, found in known.items()
            for members in sorted(found - {()}) or [everyone]
        )


def _view(slot: int, events: Sequence[Event], deadline: float) -> RankView:
    of = History(tuple(events))
    identity, ended, stops = of.first(Identity), of.first(Ended), of.all(Stopped)
    samples, left_out = of.all(Sampled), of.all(LeftOut)
    return RankView(
        slot=slot,
        rank=identity.rank if identity is not None and identity.rank >= 0 else slot,
        identity=identity,
        entered=tuple(of.all(Entered)),
        completed=frozenset(e.seq for e in of.all(Completed)),
        completions=tuple(of.all(Completed)),
        failed=tuple(of.all(OpFailed)),
        raised=of.first(Raised),
        armed=tuple(of.all(GuardArmed)),
        fired=of.first(GuardFired),
        signals=tuple(e for e in of.all(Signalled) if e.t_s <= deadline),
        ended=ended,
        stops=tuple(stops),
        stopped=stops[-1] if stops and stops[-1].stopped else None,
        finished=of.first(Finished),
        reported=next(reversed(of.all(Reported)), None),
        replicated=tuple(of.all(Replicated)),
        parameters=tuple(of.all(ParameterSum)),
        samples=tuple(s for s in samples if s.t_s <= deadline),
        stack=next((s.stack for s in reversed(samples) if s.stack), ()),
        last_site=next((s.site for s in reversed(samples) if s.site), ""),
        outlived=ended is not None and ended.t_s > deadline,
        lost=sum(e.count + e.torn for e in of.all(Lost)),
        left_out=sum(e.count for e in left_out),
        messages_left_out=sum(e.messages for e in left_out),
        whole_since_s=max((e.t_s for e in left_out), default=float("-inf")),
    )


def settled(history: History) -> History:
    """Return the history with an end for each rank whose end nobody saw but who reaped it."""
    ended = {e.slot for e in history.all(Ended)}
    slot_of = {e.pid: e.slot for e in history.events if isinstance(e, (Started, Identity))}
    over = min((d.t_s for d in history.all(DeadlineReached) if d.final), default=float("inf"))
    found: dict[int, Ended] = {}
    for event in history.all(Reaped):
        slot = slot_of.get(event.pid, -1)
        if slot >= 0 and slot not in ended:
            by: Literal["", "supervisor"] = "supervisor" if event.t_s > over else ""
            found.setdefault(slot, Ended(event.t_s, slot, event.exit_code, by))
    return History.of((*history.events, *found.values())) if found else history


def started_at(history: History) -> float:
    """Return the time the arm's first process started (0 where none did)."""
    first = history.first(Started)
    return first.t_s if first is not None else 0.0


def names(ranks: Sequence[int]) -> str:
    """Return ``rank 1`` or ``ranks 0, 2, 3``."""
    listed = ", ".join(str(r) for r in sorted(set(ranks)))
    return f"rank {listed}" if len(set(ranks)) == 1 else f"ranks {listed}"
