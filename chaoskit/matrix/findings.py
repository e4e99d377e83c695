"""What the cells suggest, made sure by running it: the smallest set of guards, and what a profile lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from chaoskit.matrix import columns
from chaoskit.matrix.batch import Wanted
from chaoskit.matrix.table import Table
from chaoskit.matrix.values import (
    NONE,
    OWN,
    PROFILE,
    Column,
    Gap,
    Mark,
    Row,
    Smallest,
    Tried,
    Worth,
    why_unknown,
)  # fmt: skip
from chaoskit.matrix.worth import guess, telling, worth
from chaoskit.model import Status

ROUNDS_MAX = 6
"""Sets that are run as a whole, at most."""
PROOFS_MAX = 2
"""Scenarios by which it is shown that a set needs one of its parts."""
_UNCLEAR = (Mark.UNSTEADY, Mark.INCONCLUSIVE, Mark.NOT_RUN, Mark.SKIPPED)


@dataclass(frozen=True, slots=True)
class Found:
    worth: tuple[Worth, ...] = ()
    smallest: Smallest = field(default_factory=Smallest)
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Findings:
    """Looks for both in as few runs of the engine as can be."""

    table: Table
    _numbers: dict[tuple[str, ...], int] = field(default_factory=dict)
    _tried: list[Tried] = field(default_factory=list)
    _needed: dict[str, str] = field(default_factory=dict)
    _unproved: set[str] = field(default_factory=set)
    _confirmed: tuple[str, ...] | None = None
    _others: int = 0
    _why_not: str = ""

    def look(self) -> None:
        """Run what the cells suggest. Nothing is looked for where only some columns were run."""
        rows = self.table.rows()
        self._why_not = self._no_set(rows)
        if self.table.bench.watch.edited:
            return  # nothing will be said
        next_set = None if self._why_not else self._next(rows)
        self._run(
            "what the profile lacks, and the smallest set", [*self._plus(rows), *self._set(next_set, rows)]
        )
        plus = [Column("plus", part) for part in self._all_additions(rows)]
        self.table.look_again([(row.scenario, column) for row in self._gap_rows(rows) for column in plus])
        rows = self.table.rows()
        if next_set is not None:
            self._note(next_set, rows)
        self._run("what may hold it instead; healthy twins", [*self._own(rows), *self._twins(rows)])
        while not self._why_not and self._confirmed is None and len(self._tried) < ROUNDS_MAX and self._going:
            next_set = self._next(rows)
            if next_set is None:
                break
            self._run(f"set {self._number(next_set)}", self._set(next_set, rows))
            self._note(next_set, rows)
        if self._confirmed is not None:
            self._prove(rows)

    # ------------------------------------------------------------ the smallest set

    def _no_set(self, rows: Sequence[Row]) -> str:
        if not self._going:
            return "interrupted before it was looked for"
        if self.table.bench.request.columns:
            return "only some columns were run"
        if why := self._unknown(rows):
            return f"not known: {why}"
        if not any(row.kept and not row.healthy for row in rows):
            return "the profile holds nothing here that needs holding"
        return ""

    def _unknown(self, rows: Sequence[Row]) -> str:
        return why_unknown(rows, self.table.bench.broken, self.table.bench.watch.edited)

    @property
    def _going(self) -> bool:
        return not self.table.bench.interrupted

    def _next(self, rows: Sequence[Row]) -> tuple[str, ...] | None:
        found = guess(self.table.parts(), rows, self._tried)
        if found is None or any(found.parts == t.parts for t in self._tried):
            return None
        self._others = found.others
        return found.parts

    def _number(self, parts: tuple[str, ...]) -> int:
        return self._numbers.setdefault(parts, len(self._numbers) + 1)

    def _set(self, parts: tuple[str, ...] | None, rows: Sequence[Row]) -> list[Wanted]:
        """A set over all that the profile keeps."""
        if parts is None:
            return []
        column = Column("set", str(self._number(parts)))
        return [self.table.wanted(row.scenario, column, parts) for row in rows if row.kept]

    def _note(self, parts: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Put down what came of a set. An interrupted one says nothing."""
        if not self._going:
            self._why_not = "interrupted while a set was run"
            return
        column = Column("set", str(self._number(parts)))
        kept = [row for row in rows if row.kept]
        marks = {row.scenario: self.table.cell(row.scenario, column).mark for row in kept}
        broken = tuple(n for n, mark in marks.items() if mark in (Mark.NOT_HELD, Mark.FALSE_ALARM))
        good = {row.scenario for row in kept if marks[row.scenario] in (Mark.HELD, Mark.QUIET)}
        unclear = tuple(n for n in marks if n not in broken and n not in good)
        self._tried.append(Tried(parts, broken, unclear, len(kept)))
        if self._tried[-1].holds:
            self._confirmed = parts

    def _prove(self, rows: Sequence[Row]) -> None:
        """Show that each part of the confirmed set is needed, by running the set without it; a set that
        turns out to do without one is run as a whole and takes its place."""
        while self._confirmed is not None and self._going:
            chosen = self._confirmed
            self._needed, self._unproved = {}, set()
            by_part = {p: list(telling(p, chosen, rows, PROOFS_MAX)) for p in chosen}
            wanted = []
            for part, names in by_part.items():
                rest = tuple(p for p in chosen if p != part)
                column = Column("set", str(self._number(rest)))
                wanted += [self.table.wanted(name, column, rest) for name in names]
            self._run("that each part of the set is needed", wanted)
            for part, names in by_part.items():
                self._judge_need(part, chosen, names)
            if not self._smaller(chosen, rows):
                return

    def _judge_need(self, part: str, chosen: tuple[str, ...], names: Sequence[str]) -> None:
        column = Column("set", str(self._number(tuple(p for p in chosen if p != part))))
        missed = [n for n in names if self.table.cell(n, column).mark is Mark.NOT_HELD]
        if missed:
            self._needed[part] = missed[0]
        else:
            self._unproved.add(part)

    def _smaller(self, chosen: tuple[str, ...], rows: Sequence[Row]) -> bool:
        """Try the set without a part that it does not seem to need; return whether that holds all, too."""
        for part in [p for p in chosen if p in self._unproved]:
            rest = tuple(p for p in chosen if p != part)
            if not rest or len(self._tried) >= ROUNDS_MAX or not self._going:
                continue
            self._run(f"the set without {part}", self._set(rest, rows))
            before = len(self._tried)
            self._note(rest, rows)
            if len(self._tried) == before:  # interrupted
                return False
            if self._tried[-1].holds:
                return True
            if self._tried[-1].broken:
                self._needed[part] = self._tried[-1].broken[0]
                self._unproved.discard(part)
        return False

    # ------------------------------------------------------------ gaps

    def _gap_rows(self, rows: Sequence[Row]) -> list[Row]:
        if self.table.bench.request.run.profile is None:
            return []  # each scenario under its own profile: there is no other to take from
        return [row for row in rows if row.mark(NONE) is Mark.BITES and row.mark(PROFILE) is Mark.NOT_HELD]

    def _additions(self, name: str) -> list[str]:
        own = columns.own(self.table.scenarios[name])
        idle = self.table.inapplicable(name, own)
        return [p for p in columns.additions(self.table.profiles[name], own) if p not in idle]

    def _all_additions(self, rows: Sequence[Row]) -> list[str]:
        return list(dict.fromkeys(p for row in self._gap_rows(rows) for p in self._additions(row.scenario)))

    def _plus(self, rows: Sequence[Row]) -> list[Wanted]:
        if self.table.bench.request.columns:
            return []
        return [
            self.table.wanted(row.scenario, Column("plus", part))
            for row in self._gap_rows(rows)
            for part in self._additions(row.scenario)
        ]

    def _helps(self, name: str) -> list[str]:
        parts = self._additions(name)
        return [p for p in parts if self.table.cell(name, Column("plus", p)).mark is Mark.HELD]

    def _own(self, rows: Sequence[Row]) -> list[Wanted]:
        """Where no single part helps: the scenario's own profile as a whole."""
        if self.table.bench.request.columns:
            return []
        return [
            self.table.wanted(row.scenario, OWN)
            for row in self._gap_rows(rows)
            if not self._helps(row.scenario)
        ]

    def _twins(self, rows: Sequence[Row]) -> list[Wanted]:
        """What helps somewhere, in the healthy twins about which the profile is quiet."""
        helping = dict.fromkeys(p for row in self._gap_rows(rows) for p in self._helps(row.scenario))
        return [
            self.table.wanted(row.scenario, Column("plus", part))
            for row in rows
            if row.healthy and row.kept
            for part in helping
            if part in self._additions(row.scenario)
        ]

    def _looked_for(self, name: str) -> bool:
        """Return whether what may hold it was run; not so where only some columns were, or not all of it."""
        tried = [Column("plus", part) for part in self._additions(name)]
        tried += [] if self._helps(name) else [OWN]
        return all(self.table.bench.records.get((name, column)) for column in tried)

    def _gap(self, row: Row, rows: Sequence[Row]) -> Gap:
        helps, mine = self._helps(row.scenario), columns.parts_of(self.table.profiles[row.scenario])
        plus = {p: self.table.cell(row.scenario, Column("plus", p)) for p in self._additions(row.scenario)}
        alarms = [
            (part, twin.scenario)
            for part in helps
            for twin in rows
            if twin.healthy and twin.mark(Column("plus", part)) is Mark.FALSE_ALARM
        ]
        cell = row.cell(PROFILE)
        own = row.mark(OWN)
        return Gap(
            row.scenario,
            cell.reason if cell is not None else "",
            helps=tuple(helps),
            changed=tuple(p for p in helps if p in mine),
            alarms=tuple(alarms),
            unclear=tuple(p for p, c in plus.items() if c.mark in _UNCLEAR),
            own_profile=columns.own(self.table.scenarios[row.scenario]).name,
            own=own,
        )

    # ------------------------------------------------------------ all of it

    def _run(self, what: str, wanted: Iterable[Wanted]) -> None:
        self.table.bench.run(what, list(wanted))

    def found(self, rows: Sequence[Row]) -> Found:
        """Return what is known now."""
        smallest = Smallest(
            self._confirmed,
            tuple(self._tried),
            tuple((p, self._needed[p]) for p in self._confirmed or () if p in self._needed),
            tuple(p for p in self._confirmed or () if p not in self._needed),
            self._others,
            self._why_not
            or ("" if self._confirmed else "no set that was run holds all that the profile holds"),
        )
        gaps = tuple(self._gap(row, rows) for row in self._gap_rows(rows) if self._looked_for(row.scenario))
        worths = () if self._unknown(rows) else tuple(worth(p, rows, self._tried) for p in self.table.parts())
        return Found(worths, smallest, gaps, self._notes(rows))

    def _notes(self, rows: Sequence[Row]) -> tuple[str, ...]:
        notes = []
        skipped: dict[str, list[str]] = {}
        for row in rows:
            cell = row.cell(PROFILE)
            if cell is not None and cell.mark is Mark.SKIPPED:
                skipped.setdefault(cell.reason, []).append(row.scenario)
        notes += [f"skipped: {', '.join(names)}: {reason}" for reason, names in skipped.items()]
        backends = {row.backend for row in rows}
        idle = [w.part for w in (worth(p, rows) for p in self.table.parts()) if w.not_applicable]
        if idle and not self._unknown(rows):
            where = ", ".join(sorted(backends))
            notes.append(
                f"without effect on {where} as run here, so nothing is said of them: {', '.join(idle)}"
            )
        return (*notes, *self._moved())

    def _moved(self) -> list[str]:
        """What was changed so that the scenarios fit this machine, or a program of the user's."""
        told = []
        for name in self.table.scenarios:
            for record in self.table.bench.records.get((name, NONE), ())[:1]:
                if record.verdict.status is not Status.SKIPPED:
                    told += [f"{name}: {note}" for note in record.verdict.notes]
        return told
