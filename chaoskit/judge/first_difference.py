"""The first moment at which ranks hold different parameters, and which, from what the ranks themselves kept.

What comes out are events for the history, so that this alone suffices to judge by later. The recorder may
have lost early checks where the kept ones go back further: then these checks are told, too. May not read
files: it gets what was kept as something to iterate over, twice, one rank at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from chaoskit.history import Event, Identity, ParameterSum, Replicated
from chaoskit.judge import replicas
from chaoskit.judge.replicas import FINAL, Difference
from chaoskit.parameter_sums import Moment

NAMED: Final = 16
"""So many of the parameters that differ are told of."""
_LOOKED_AT: Final = 32
"""So many moments at which ranks differ are looked at closely: the first ones."""

Key = tuple[int, int, bool]
"""A moment: step, ordinal, whether it is of the end."""
Kept = Mapping[int, Iterable[Moment]]
"""What each slot has kept."""


def events(recorded: Iterable[Event], kept: Kept) -> tuple[Event, ...]:
    """Return what is to be added to these events. Nothing where the ranks held the same, or it is there."""
    known = _known(recorded)
    if known.told or len(kept) < 2:
        return ()
    keys = _keys(kept)
    close: dict[int, list[Moment]] = {
        slot: [moment for moment in of if _key(moment) in keys] for slot, of in kept.items()
    }
    added = [
        event
        for slot, moments in close.items()
        for event in (known.replicated(slot, moment) for moment in moments)
        if event not in known.checks.get(slot, ())
    ]
    difference = replicas.compare_checks(known.with_(added), len(known.ranks)).difference
    if difference is None:
        return ()
    before = {difference.updates, difference.equal_at}
    needed = [e for e in added if e.ordinal == difference.ordinal and (e.final or e.step in before)]
    return (*needed, *_sums(known, difference, close))


@dataclass(slots=True)
class _Known:
    """What the recorded events say: ranks, checks and times, by slot."""

    ranks: dict[int, int] = field(default_factory=dict)
    checks: dict[int, list[Replicated]] = field(default_factory=dict)
    times: dict[int, tuple[float, float]] = field(default_factory=dict)  # of the first event and the last
    told: bool = False

    def replicated(self, slot: int, moment: Moment) -> Replicated:
        """The event of this moment: the one that is known, where there is one."""
        for check in self.checks.get(slot, ()):
            if (check.step, check.ordinal, check.final) == _key(moment) and check.checksum == moment.checksum:
                return check
        low, high = self.times.get(slot, (0.0, 0.0))
        at = min(max(moment.t_s, low), high)  # the file is not to be believed
        return Replicated(at, slot, moment.step, moment.checksum, moment.final, moment.ordinal)

    def with_(self, added: Iterable[Replicated]) -> dict[int, list[Replicated]]:
        """All checks by rank."""
        found: dict[int, list[Replicated]] = {}
        for slot, rank in self.ranks.items():
            found.setdefault(rank, []).extend(self.checks.get(slot, ()))
        for event in added:
            found.setdefault(self.ranks.get(event.slot, event.slot), []).append(event)
        return found


def _known(recorded: Iterable[Event]) -> _Known:
    found = _Known()
    for event in recorded:
        if event.slot < 0:
            continue
        low, high = found.times.get(event.slot, (event.t_s, event.t_s))
        found.times[event.slot] = min(low, event.t_s), max(high, event.t_s)
        found.ranks.setdefault(event.slot, event.slot)
        if isinstance(event, Identity) and event.rank >= 0:
            found.ranks[event.slot] = event.rank
        elif isinstance(event, Replicated):
            found.checks.setdefault(event.slot, []).append(event)
        found.told |= isinstance(event, ParameterSum)
    return found


def _key(moment: Moment) -> Key:
    return moment.step, moment.ordinal, moment.final


def _keys(kept: Kept) -> set[Key]:
    """The first moments at which not all ranks kept the same, those just before, and those of the end."""
    first: dict[Key, int] = {}
    apart: set[Key] = set()
    ends: set[Key] = set()
    for moments in kept.values():
        for moment in moments:
            key = _key(moment)
            if first.setdefault(key, moment.checksum) != moment.checksum:
                apart.add(key)
            if moment.final:
                ends.add(key)
    found = set(heapq.nsmallest(_LOOKED_AT, apart)) | set(heapq.nsmallest(_LOOKED_AT, ends))
    for ordinal in {key[1] for key in found}:
        begin = min((key for key in found if key[1] == ordinal), default=None)
        earlier = [k for k in first if k not in apart and k[1] == ordinal and begin is not None and k < begin]
        found |= {max(earlier)} if earlier else set()
    return found


def _sums(known: _Known, difference: Difference, close: Kept) -> Iterator[ParameterSum]:
    """What the ranks kept of the parameters that differ, of the first moment of which they have."""
    for key in _candidates(difference, close):
        held = {
            slot: moment
            for slot, moments in close.items()
            for moment in moments
            if _key(moment) == key or (key[2] and moment.final and moment.ordinal == key[1])
        }
        if indices := _apart(held):
            names = next(iter(held.values())).names
            for slot, moment in held.items():
                t_s = known.replicated(slot, moment).t_s
                for index in indices[:NAMED]:
                    yield ParameterSum(
                        t_s, slot, moment.step, names[index], moment.numbers[index],
                        moment.ordinal, moment.final, len(indices), len(names),
                    )  # fmt: skip
            return


def _candidates(difference: Difference, close: Kept) -> list[Key]:
    """The moment of the difference; then later ones, where that one was not kept."""
    keys = {_key(moment) for moments in close.values() for moment in moments}
    of_it = sorted(k for k in keys if k[1] == difference.ordinal and k[0] >= difference.updates)
    if difference.step == FINAL:
        return [k for k in of_it if not k[2]] + [k for k in keys if k[2] and k[1] == difference.ordinal][:1]
    return of_it


def _apart(held: Mapping[int, Moment]) -> list[int]:
    """Which of the parameters differ; none where the ranks do not hold the same ones."""
    if len(held) < 2 or len({moment.names for moment in held.values()}) > 1:
        return []
    columns = zip(*(moment.numbers for moment in held.values()), strict=True)
    return [index for index, column in enumerate(columns) if len(set(column)) > 1]
