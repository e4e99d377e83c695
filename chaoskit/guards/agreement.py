"""Compares checksums of what ranks hold alike, update by update, and says who differs. Pure: no sockets, no
clock.

A rank that says nothing about an update is not compared there: it may have left, or replicate no longer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from chaoskit.guards.comparison import Dispute, Entered, GroupKey
from chaoskit.guards.roll import ranks_text, sides

_ALL = 1 << 62  # more than any count
_MOST_OPEN = 1000  # a rank that falls this far behind is no longer waited for


@dataclass(slots=True)
class _Replicated:
    """One replicated thing. Its key's name is its ordinal, its members are the ranks that hold it."""

    open: dict[int, dict[int, Entered]] = field(default_factory=dict)  # index → rank → what it holds
    reached: dict[int, int] = field(default_factory=dict)  # rank → the last index that it told
    done: set[int] = field(default_factory=set)  # ranks that tell nothing more
    equal: int = -1  # the last update after which all were equal


class Agreement:
    """All that the ranks of a job hold alike, as one collector knows it.

    Of an `Entered`, the fingerprint is the checksum, `op` what is held, `step` the number of updates.
    """

    def __init__(self) -> None:
        self._things: dict[GroupKey, _Replicated] = {}
        self._disputes: list[tuple[int, GroupKey]] = []
        self._gone: set[int] = set()

    def enter(self, rank: int, group: GroupKey, index: int, entered: Entered) -> None:
        """``rank`` holds this at the moment number ``index``."""
        thing = self._thing(group)
        values = thing.open.setdefault(index, {})
        values[rank] = entered
        thing.reached[rank] = index
        if len({value.fingerprint for value in values.values()}) > 1:
            if (index, group) not in self._disputes:
                self._disputes.append((index, group))
        elif len(values) == len(group[1]):
            thing.equal = max(thing.equal, entered.step)
            del thing.open[index]
        if len(thing.open) > _MOST_OPEN and not self._disputes:
            del thing.open[min(thing.open)]

    def leave(self, rank: int, group: GroupKey, count: int) -> None:
        """``rank`` tells nothing more of this thing."""
        self._thing(group).done.add(rank)

    def gone(self, rank: int) -> None:
        """``rank`` vanished: nobody waits for it here."""
        self._gone.add(rank)

    def agreed(self, group: GroupKey) -> int:
        """Return up to which index every rank has told what it will ever tell."""
        thing = self._thing(group)
        waited_for = set(group[1]) - thing.done - self._gone
        return min((thing.reached.get(rank, 0) for rank in waited_for), default=_ALL)

    def dispute(self) -> Dispute | None:
        """Return the earliest difference, None where there is none."""
        if not self._disputes:
            return None
        index, group = min(self._disputes)
        thing = self._things[group]
        heard = set(thing.open[index]) | thing.done | self._gone
        return Dispute(group, index, complete=heard >= set(group[1]))

    def odd(self, dispute: Dispute) -> tuple[int, ...]:
        """Return the ranks that differ from the majority; none where there is no majority."""
        few, most = self._sides(dispute)
        return tuple(few) if len(most) > len(few) else ()

    def describe(self, dispute: Dispute) -> str:
        """Say who differs since when, in one line."""
        thing = self._things[dispute.group]
        one = next(iter(thing.open[dispute.index].values()))
        few, most = self._sides(dispute)
        since = f"; equal after step {thing.equal}" if thing.equal >= 0 else ""
        held = "holds" if len(few) == 1 else "hold"
        doubt = "" if self.odd(dispute) else "; without a majority either side may be the wrong one"
        return (
            f"{ranks_text(few)} {held} other values of {one.op} than {ranks_text(most)} "
            f"after step {one.step}{since}{doubt}"
        )

    def _sides(self, dispute: Dispute) -> tuple[list[int], list[int]]:
        values = self._things[dispute.group].open[dispute.index]
        return sides({rank: value.fingerprint for rank, value in values.items()})

    def _thing(self, key: GroupKey) -> _Replicated:
        thing = self._things.get(key)
        if thing is None:
            thing = self._things[key] = _Replicated()
        return thing
