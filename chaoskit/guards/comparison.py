"""Compares what the ranks of each group entered, in order, and says who differs. Pure: no sockets, no clock.

Every rank enters operations 1, 2, 3 … of a group; operation n has to be the same on all of its members. A
rank that has left a group enters nothing more in it, so another rank's next operation there has no partner.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from chaoskit.guards.roll import ranks_text, sides

GroupKey = tuple[str, tuple[int, ...]]
"""Name and members: a name alone need not be the same group on every rank."""


@dataclass(frozen=True, slots=True)
class Entered:
    """One operation that a rank entered. ``fingerprint`` is what has to be equal; the rest is for people."""

    fingerprint: int
    op: str
    nth: int
    what: str  # dtype and shape
    step: int


@dataclass(slots=True)
class _Group:
    members: tuple[int, ...]
    agreed: int = 0  # operations 1 … agreed were the same on all members
    open: dict[int, dict[int, Entered]] = field(default_factory=dict)  # index → rank → what
    left: dict[int, int] = field(default_factory=dict)  # rank → operations it entered in all
    gone: set[int] = field(default_factory=set)

    def values(self, index: int) -> dict[int, Entered | None]:
        """What each member did as operation ``index``, where known; None for one that had left."""
        known: dict[int, Entered | None] = dict(self.open.get(index, {}))
        known.update({rank: None for rank, count in self.left.items() if count < index})
        return known

    def disputed(self, index: int) -> bool:
        return len({e and e.fingerprint for e in self.values(index).values()}) > 1

    def settle(self) -> None:
        """Move ``agreed`` on over operations that all members still there have entered alike."""
        while (entries := self.open.get(self.agreed + 1)) and not self.disputed(self.agreed + 1):
            if any(rank not in entries and rank not in self.gone for rank in self.members):
                return
            self.agreed += 1
            del self.open[self.agreed]


@dataclass(frozen=True, slots=True)
class Dispute:
    """Operation ``index`` of a group differs between ranks. ``complete``: all members are heard."""

    group: GroupKey
    index: int
    complete: bool


class Comparison:
    """All groups of a job, as one collector knows them."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, _Group] = {}
        self._disputes: list[tuple[GroupKey, int]] = []

    def enter(self, rank: int, group: GroupKey, index: int, entered: Entered) -> None:
        """``rank`` entered its operation number ``index`` (from 1) of ``group``."""
        state = self._group(group)
        state.open.setdefault(index, {})[rank] = entered
        self._look(group, state, index)

    def leave(self, rank: int, group: GroupKey, count: int) -> None:
        """``rank`` will enter nothing more in ``group``; it entered ``count`` operations in all."""
        state = self._group(group)
        state.left[rank] = count
        self._look(group, state, count + 1)

    def gone(self, rank: int) -> None:
        """``rank`` vanished without leaving: nothing is known of it any more, and nobody waits for it
        here."""
        for group, state in self._groups.items():
            if rank in state.members:
                state.gone.add(rank)
                self._look(group, state, state.agreed + 1)

    def agreed(self, group: GroupKey) -> int:
        """Return up to which operation all members of ``group`` did the same."""
        return self._group(group).agreed

    def dispute(self) -> Dispute | None:
        """Return the first difference found, None where there is none."""
        if not self._disputes:
            return None
        group, index = self._disputes[0]
        state = self._groups[group]
        heard = set(state.values(index)) | state.gone
        return Dispute(group, index, complete=heard >= set(state.members))

    def odd(self, dispute: Dispute) -> tuple[int, ...]:
        """Nobody is wrong beyond doubt: the rank that differs may only follow one that skipped earlier."""
        return ()

    def describe(self, dispute: Dispute) -> str:
        """Say who differs, in one line: the ranks that the majority does not agree with come first."""
        values = self._groups[dispute.group].values(dispute.index)
        few, most = sides({rank: value and value.fingerprint for rank, value in values.items()})
        name = dispute.group[0]
        of = "" if name == "default" else f" of group {name}"
        theirs, usual = values[few[0]], values[most[0]]
        same_call = (
            theirs is not None and usual is not None and (theirs.op, theirs.nth) == (usual.op, usual.nth)
        )
        step = next((v.step for v in (usual, theirs) if v is not None), 0)
        others = [rank for rank in few if values[rank] != theirs]
        more = "; ".join(f"{ranks_text([rank])} {_did(values[rank], True)}" for rank in others)
        first = [rank for rank in few if rank not in others]
        doubt = "" if len(most) > len(few) else "; without a majority either side may be the wrong one"
        return (
            f"{ranks_text(first)} {_did(theirs, same_call)}{'; ' + more if more else ''} "
            f"where {ranks_text(most)} {_did(usual, same_call)}{of} (step {step}){doubt}"
        )

    def _group(self, key: GroupKey) -> _Group:
        state = self._groups.get(key)
        if state is None:
            state = self._groups[key] = _Group(key[1])
        return state

    def _look(self, key: GroupKey, state: _Group, index: int) -> None:
        if state.disputed(index):
            if (key, index) not in self._disputes:
                self._disputes.append((key, index))
            return
        state.settle()


def _did(value: Entered | None, with_shape: bool) -> str:
    if value is None:
        return "entered nothing more"
    return f"entered {value.op} #{value.nth}{f' with {value.what}' if with_shape and value.what else ''}"
