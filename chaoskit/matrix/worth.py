"""What each part is worth, and which sets of parts may hold all that the profile holds. Pure.

What is reckoned here only says what to run next: a set is called the smallest once it was run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaoskit.matrix.values import NONE, PROFILE, Column, Mark, Row, Tried, Worth

_UNCLEAR = frozenset({Mark.UNSTEADY, Mark.INCONCLUSIVE, Mark.NOT_RUN})
_SAYS_NOTHING = frozenset({Mark.NOT_RUN, Mark.NOT_APPLICABLE})
_SEARCHED_MAX = 200_000
"""Sets that are looked at, at most: about a second."""


def worth(part: str, rows: Sequence[Row], tried: Sequence[Tried] = ()) -> Worth:
    """Return what ``part`` is worth over ``rows``. Rows in which nothing can be earned say nothing of it.

    ``tried``: the sets that were run.
    """
    alone, without = Column("alone", part), Column("without", part)
    clear = [row for row in rows if row.mark(NONE) in (Mark.BITES, Mark.QUIET)]
    faults = [row for row in clear if not row.healthy]

    def names(of: Sequence[Row], column: Column, *marks: Mark) -> tuple[str, ...]:
        return tuple(row.scenario for row in of if row.mark(column) in marks)

    unkept = [row for row in clear if row.mark(PROFILE) in (Mark.NOT_HELD, Mark.FALSE_ALARM)]
    unclear = (*names(faults, alone, *_UNCLEAR), *names(faults, without, *_UNCLEAR))
    marks = _told(alone, clear) or _told(alone, rows)
    told = [m for m in (*_told(alone, rows), *_told(without, rows)) if m not in _SAYS_NOTHING]
    return Worth(
        part,
        alone=names(faults, alone, Mark.HELD),
        needed=names([row for row in faults if row.kept], without, Mark.NOT_HELD),
        hinders=names(unkept, without, Mark.HELD, Mark.QUIET),
        alarms=names([row for row in clear if row.healthy], alone, Mark.FALSE_ALARM),
        unclear=tuple(dict.fromkeys(unclear)),
        not_applicable=bool(marks) and all(mark is Mark.NOT_APPLICABLE for mark in marks),
        together=tuple(
            row.scenario
            for row in faults
            if row.kept and row.mark(without) is Mark.HELD and not _explained(part, row, tried)
        ),
        in_set=any(part in t.parts and _holds_a_fault(t, faults) for t in tried),
        told_by=len([r for r in faults if r.mark(alone) not in (None, Mark.NOT_APPLICABLE)]),
        told_cells=len(told),
    )


def _told(column: Column, rows: Sequence[Row]) -> list[Mark]:
    return [m for row in rows if (m := row.mark(column)) is not None and m is not Mark.SKIPPED]


def _explained(part: str, row: Row, tried: Sequence[Tried]) -> bool:
    """Return whether the cells say what holds a row, without ``part``: two parts that do so alone, one that
    does and that the profile needs, or those that it needs, in a set that was run."""
    if row.mark(Column("alone", part)) in (Mark.HELD, Mark.NOT_APPLICABLE):
        return True
    alone = {c.column.part for c in row.cells if c.column.form == "alone" and c.mark is Mark.HELD}
    needed = {c.column.part for c in row.cells if c.column.form == "without" and c.mark is Mark.NOT_HELD}
    idle = {c.column.part for c in row.cells if c.mark is Mark.NOT_APPLICABLE}
    if len(alone) > 1 or alone & needed:
        return True
    return any(needed and set(t.parts) - idle <= needed and _holds(t, row) for t in tried)


def _holds(tried: Tried, row: Row) -> bool:
    return row.kept and tried.scenarios > 0 and row.scenario not in (*tried.broken, *tried.unclear)


def _holds_a_fault(tried: Tried, faults: Sequence[Row]) -> bool:
    return any(_holds(tried, row) for row in faults)


@dataclass(frozen=True, slots=True)
class Guess:
    """A set to run next, and how many others of its size the cells allow for as well."""

    parts: tuple[str, ...]
    others: int


def guess(parts: Sequence[str], rows: Sequence[Row], tried: Sequence[Tried]) -> Guess | None:
    """Return the smallest set that may keep all that the profile keeps, by the cells and by what was tried;
    None where every one is known not to, or there is nothing to hold."""
    kept = [row for row in rows if row.kept]
    if not any(not row.healthy for row in kept):
        return None
    asked = [_Ask.of(row, parts, tried) for row in kept]
    forced = frozenset(p for ask in asked for p in ask.forced)
    free = [p for p in parts if p not in forced and any(p in ask.useful for ask in asked)]
    looked = 0
    for size in range(len(free) + 1):
        fits: list[tuple[str, ...]] = []
        for more in itertools.combinations(free, size):
            looked += 1
            chosen = forced | set(more)
            if chosen and all(ask.allows(chosen) for ask in asked):
                fits.append(tuple(p for p in parts if p in chosen))
            if looked >= _SEARCHED_MAX:
                return Guess(fits[0], len(fits) - 1) if fits else None
        if fits:
            return Guess(fits[0], len(fits) - 1)
    return None


@dataclass(frozen=True, slots=True)
class _Ask:
    """What one row asks of a set. ``alone``: parts of which any one holds it; ``together``: parts that are
    needed where none does; ``refused``: sets that do not hold it, nor does anything within them, one
    supposes; ``alarming``: parts that alarm at a healthy twin."""

    healthy: bool
    alone: frozenset[str]
    together: frozenset[str]
    alarming: frozenset[str]
    refused: tuple[frozenset[str], ...]
    parts: frozenset[str]

    @classmethod
    def of(cls, row: Row, parts: Sequence[str], tried: Sequence[Tried]) -> _Ask:
        def having(form: str, mark: Mark) -> frozenset[str]:
            return frozenset(p for p in parts if row.mark(Column(form, p)) is mark)  # type: ignore[arg-type]

        usable = frozenset(parts) - having("alone", Mark.NOT_APPLICABLE)
        broken = tuple(frozenset(t.parts) for t in tried if row.scenario in (*t.broken, *t.unclear))
        alone, together = having("alone", Mark.HELD), having("without", Mark.NOT_HELD)
        return cls(row.healthy, alone, together, having("alone", Mark.FALSE_ALARM), broken, usable)

    @property
    def forced(self) -> frozenset[str]:
        """Parts without which no set is allowed."""
        if self.healthy:
            return frozenset()
        if self.alone:
            return self.alone if len(self.alone) == 1 else frozenset()
        return self.together

    @property
    def useful(self) -> frozenset[str]:
        if self.healthy:
            return frozenset()
        if self.alone and not self.refused:
            return self.alone
        return self.parts if self.refused or not self.together else self.together

    def allows(self, chosen: frozenset[str]) -> bool:
        if self.healthy:
            return not chosen & self.alarming and chosen not in self.refused
        if len(chosen) == 1 and chosen <= self.alone:
            return True  # it was run: whatever was refused, this holds
        if any(chosen <= refused for refused in self.refused):
            return False
        if self.alone:
            return bool(chosen & self.alone)
        return self.together <= chosen and bool(chosen & self.parts)


def telling(part: str, chosen: Sequence[str], rows: Sequence[Row], at_most: int) -> Iterator[str]:
    """Yield scenarios by which it may show that a set needs ``part``: those that nothing else in it holds
    alone, or that the profile does not hold without it."""
    others = [Column("alone", p) for p in chosen if p != part]
    only_by_it, needed = [], []
    for row in rows:
        if row.healthy or not row.kept:
            continue
        if not any(row.mark(other) is Mark.HELD for other in others):
            only_by_it.append(row)
        elif row.mark(Column("without", part)) is Mark.NOT_HELD:
            needed.append(row)
    ranked = sorted(only_by_it, key=lambda row: _rank(row, part))
    yield from (row.scenario for row in [*ranked, *needed][:at_most])


def _rank(row: Row, part: str) -> int:
    """The surest first: the part holds it alone, and the profile does not without the part."""
    alone = row.mark(Column("alone", part)) is Mark.HELD
    needed = row.mark(Column("without", part)) is Mark.NOT_HELD
    return -2 * needed - alone
