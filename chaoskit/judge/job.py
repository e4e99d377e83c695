"""The history of one arm seen rank by rank: the form in which every rule reads it.

Built from a *blind* history for blame, and from the full one for outcome and contract. Holds no
opinion of its own about who did what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    Lost,
    OpFailed,
    Raised,
    Reported,
    Sampled,
    Signalled,
    Started,
    Stopped,
)

P2P = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv"})
"""Operations that differ between ranks by nature."""


@dataclass(frozen=True, slots=True)
class RankView:
    """All that is known of one process. ``rank`` is the RANK it claims, else its slot."""

    slot: int
    rank: int
    identity: Identity | None
    entered: tuple[Entered, ...]
    completed: frozenset[int]  # seq numbers
    failed: tuple[OpFailed, ...]
    raised: Raised | None
    armed: tuple[GuardArmed, ...]
    fired: GuardFired | None
    signalled: Signalled | None
    ended: Ended | None
    stopped: Stopped | None  # the last stop it did not come out of
    finished: Finished | None
    reported: Reported | None
    samples: tuple[Sampled, ...]  # up to the deadline
    last_site: str  # the user's line in the newest sample, those after the deadline included
    outlived: bool  # alive when the deadline came, whatever ended it then
    lost: int

    @property
    def last(self) -> Entered | None:
        return self.entered[-1] if self.entered else None

    @property
    def waiting(self) -> Entered | None:
        """The operation this rank sits in: entered, neither completed nor failed."""
        last = self.last
        if last is None or last.seq in self.completed or any(f.seq == last.seq for f in self.failed):
            return None
        return last

    @property
    def ended_itself(self) -> bool:
        """True when the process is gone and nothing of ours sent the signal."""
        return self.ended is not None and self.ended.by == ""

    @property
    def alive_at_deadline(self) -> bool:
        return self.ended is None or self.outlived or self.ended.by == "supervisor"

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
    """The ranks of one arm in order of slot."""

    ranks: tuple[RankView, ...]

    @classmethod
    def of(cls, history: History) -> Job:
        by_slot: dict[int, list[Event]] = {slot: [] for slot in history.slots}
        for event in history.events:
            if event.slot in by_slot:
                by_slot[event.slot].append(event)
        final = next((d.t_s for d in history.all(DeadlineReached) if d.final), float("inf"))
        return cls(tuple(_view(slot, events, final) for slot, events in by_slot.items()))

    def view(self, slot: int) -> RankView:
        return next(v for v in self.ranks if v.slot == slot)

    def claiming(self, rank: int) -> tuple[RankView, ...]:
        """Return the processes that claim ``rank`` (two, where a rank is duplicated)."""
        return tuple(v for v in self.ranks if v.rank == rank)

    @property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """The members (ranks) of every group in which an operation was entered."""
        everyone = tuple(sorted({v.rank for v in self.ranks}))
        found: dict[str, tuple[int, ...]] = {}
        for view in self.ranks:
            for event in view.entered:
                known = found.get(event.group, ())
                found[event.group] = max(known, event.members, key=len)
        return {group: members or everyone for group, members in found.items()}


def _view(slot: int, events: Sequence[Event], deadline: float) -> RankView:
    def last(kind: type[Event]) -> Event | None:
        return next((e for e in reversed(events) if isinstance(e, kind)), None)

    identity = next((e for e in events if isinstance(e, Identity)), None)
    stop = last(Stopped)
    raised = next((e for e in events if isinstance(e, Raised)), None)
    ended = next((e for e in events if isinstance(e, Ended)), None)
    samples = [e for e in events if isinstance(e, Sampled)]
    return RankView(
        slot=slot,
        rank=identity.rank if identity is not None and identity.rank >= 0 else slot,
        identity=identity,
        entered=tuple(e for e in events if isinstance(e, Entered)),
        completed=frozenset(e.seq for e in events if isinstance(e, Completed)),
        failed=tuple(e for e in events if isinstance(e, OpFailed)),
        raised=raised,
        armed=tuple(e for e in events if isinstance(e, GuardArmed)),
        fired=next((e for e in events if isinstance(e, GuardFired)), None),
        signalled=next((e for e in events if isinstance(e, Signalled)), None),
        ended=ended,
        stopped=stop if isinstance(stop, Stopped) and stop.stopped else None,
        finished=next((e for e in events if isinstance(e, Finished)), None),
        reported=next((e for e in reversed(events) if isinstance(e, Reported)), None),
        samples=tuple(s for s in samples if s.t_s <= deadline),
        last_site=next((s.site for s in reversed(samples) if s.site), ""),
        outlived=ended is not None and ended.t_s > deadline,
        lost=sum(e.count + e.torn for e in events if isinstance(e, Lost)),
    )


def started_at(history: History) -> float:
    """Return the time the arm's first process started (0 where none did)."""
    first = history.first(Started)
    return first.t_s if first is not None else 0.0


def names(ranks: Sequence[int]) -> str:
    """Return ``rank 1`` or ``ranks 0, 2, 3``."""
    listed = ", ".join(str(r) for r in sorted(set(ranks)))
    return f"rank {listed}" if len(set(ranks)) == 1 else f"ranks {listed}"
