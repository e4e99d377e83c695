"""What a matrix is made of. Frozen values, no I/O.

A *part* is one guard or one variable of a profile. A *column* is what a scenario is run under; a *row* is a
scenario; a *cell* is what came of one scenario under one column, over all repeats.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from chaoskit.model import Backend, Outcome

Form = Literal["none", "alone", "profile", "without", "set", "plus", "own", "again"]
"""``set``: some parts of the profile; ``plus``: the profile and one part more; ``own``: the profile that the
scenario's file hardens with; ``again``: a second look at the column whose name is the part."""


class Mark(enum.StrEnum):
    """What is said of a cell. BITES, HELD and QUIET are said only where they were earned by running."""

    BITES = "bites"  # no guard: the fault breaks the contract, so there is something to hold
    HELD = "held"  # the contract is kept, and without any guard it is broken; in every repeat
    NOT_HELD = "not_held"
    QUIET = "quiet"  # a healthy twin: the job completes
    FALSE_ALARM = "false_alarm"  # a healthy twin: the job is ended, or ends wrong
    NOT_NEEDED = "not_needed"  # the contract is kept without any guard
    UNSTEADY = "unsteady"  # it differs between repeats
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not_applicable"  # the part has no effect here: the same as without it
    SKIPPED = "skipped"  # it cannot be run here, or as asked, or the fault cannot be had on the program
    NOT_RUN = "not_run"


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """What a scenario is run under. ``part`` is the guard or variable of *alone*, *without* and *plus*, the
    number of a *set*."""

    form: Form
    part: str = ""

    @property
    def name(self) -> str:
        """The name of its arms and folders, and what the user types: ``without-timeouts``."""
        return f"{self.form}-{self.part}" if self.part else self.form


NONE, PROFILE, OWN = Column("none"), Column("profile"), Column("own")


@dataclass(frozen=True, slots=True)
class Cell:
    """What came of one scenario under one column.

    ``named``: the verdict names the culprits that the contract names, and no others; ``named_by_job``: so do
    the lines that guards and their launcher write. None: nobody is to be named, or nothing was run.
    ``ended``: the job ended nonzero within its bound, whatever else it broke.
    """

    column: Column
    mark: Mark
    reason: str = ""
    outcome: Outcome | None = None
    latency_s: float | None = None
    bound_s: float | None = None
    ended: bool = False
    culprits: tuple[str, ...] = ()
    named: bool | None = None
    named_by_job: bool | None = None
    ended_by: tuple[str, ...] = ()
    repeats: int = 0
    seconds: float = 0.0
    folder: str = ""  # of its last repeat, below the folder of the matrix
    rerun: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario. ``profile`` is the name of the profile under test, by default the scenario's own."""

    scenario: str
    family: str
    summary: str
    healthy: bool
    backend: Backend
    profile: str
    cells: tuple[Cell, ...] = ()

    def cell(self, column: Column) -> Cell | None:
        return next((c for c in self.cells if c.column == column), None)

    def mark(self, column: Column) -> Mark | None:
        found = self.cell(column)
        return None if found is None else found.mark

    @property
    def kept(self) -> bool:
        """True where the profile holds it, or is quiet about a healthy twin."""
        return self.mark(PROFILE) in (Mark.HELD, Mark.QUIET)


@dataclass(frozen=True, slots=True)
class Tried:
    """A set of parts that was run over all that the profile holds. ``broken``: what it does not hold, a
    healthy twin that it alarms at among them; ``unclear``: of what nothing can be said."""

    parts: tuple[str, ...]
    broken: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()
    scenarios: int = 0

    @property
    def holds(self) -> bool:
        return not self.broken and not self.unclear and self.scenarios > 0


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest set found. ``confirmed`` was run and holds all that the profile holds; None: none of those
    ``tried`` does. ``needed``: for each of its parts a scenario that was run and is not held without it;
    ``unproved``: its parts for which no such run exists."""

    confirmed: tuple[str, ...] | None = None
    tried: tuple[Tried, ...] = ()
    needed: tuple[tuple[str, str], ...] = ()
    unproved: tuple[str, ...] = ()
    others: int = 0  # sets of the same size that the cells allow for as well; not run
    why_not: str = ""  # why none was looked for


@dataclass(frozen=True, slots=True)
class Worth:
    """What one part is worth, over all rows."""

    part: str
    alone: tuple[str, ...] = ()  # scenarios that it holds alone
    needed: tuple[str, ...] = ()  # scenarios that the profile does not hold without it
    hinders: tuple[str, ...] = ()  # scenarios that are held, or completed, only without it
    alarms: tuple[str, ...] = ()  # healthy twins that do not complete under it alone
    unclear: tuple[str, ...] = ()  # scenarios of which its cells say nothing
    not_applicable: bool = False  # nowhere here
    together: tuple[str, ...] = ()  # scenarios that no cell explains without it: it may hold them with others
    in_set: bool = False  # of a set that was run and holds something
    told_by: int = 0  # faults that bite, in which it has an effect: without any nothing is known of it
    told_cells: int = 0  # its cells of which something is said, if only that there is nothing to hold

    @property
    def matters(self) -> bool | None:
        """False only where every cell was run, none differs with it, and it takes no other's place; None: not
        known."""
        if self.alone or self.needed or self.hinders or self.in_set:
            return True
        return None if self.unclear or self.together or not self.told_by else False

    @property
    def replaceable(self) -> bool:
        """True where the profile holds all without it, though it does, or may do, something with others."""
        return not (self.alone or self.needed or self.hinders or self.unclear) and bool(
            self.in_set or self.together
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """A scenario that the profile does not hold. ``helps``: parts of the scenario's own profile that, added
    one at a time, hold it; ``alarms``: of those, the ones with which a healthy twin no longer completes.
    ``own``: what that profile as a whole does; None where it was not run."""

    scenario: str
    why: str
    helps: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # of those that help: the profile has them, with other settings
    alarms: tuple[tuple[str, str], ...] = ()
    unclear: tuple[str, ...] = ()
    own_profile: str = ""
    own: Mark | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """How a matrix was made."""

    folder: str
    profile: str
    backend: str
    seed: int
    torch: str
    chaoskit: str
    python: str
    cores: int
    repeat: int
    command: str
    resume: str
    resume_note: str = ""  # what has to be given again with ``resume``
    program: str = ""  # the users' programs, with their arguments and who starts their ranks; no secrets


@dataclass(frozen=True, slots=True)
class Broken:
    """A program that cannot be used. ``folder``: where what it wrote lies."""

    program: str
    why: str
    folder: str


@dataclass(frozen=True, slots=True)
class Effort:
    """``run`` cells took ``wall_s`` side by side, ``sum_s`` one after the other; ``kept`` came from before.
    Cells that an interruption cut off are in neither ``run`` nor ``sum_s``.
    ``damaged``: lines of kept cells that could not be read; ``stale``: kept cells of other conditions."""

    wall_s: float = 0.0
    sum_s: float = 0.0
    run: int = 0
    kept: int = 0
    damaged: int = 0
    stale: int = 0


@dataclass(frozen=True, slots=True)
class Matrix:
    """All that one `chaoskit matrix` found."""

    origin: Origin
    parts: tuple[str, ...]
    rows: tuple[Row, ...]
    worth: tuple[Worth, ...] = ()
    smallest: Smallest = field(default_factory=Smallest)
    gaps: tuple[Gap, ...] = ()
    effort: Effort = field(default_factory=Effort)
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    not_kept: tuple[str, ...] = ()  # scenarios whose cells --resume runs again, and why
    broken: tuple[Broken, ...] = ()
    edited: tuple[str, ...] = ()  # programs whose files changed while their cells ran

    def __post_init__(self) -> None:
        """Where nothing is known, nothing is said of guards, whatever was reckoned from such cells."""
        if why := self.not_known:
            object.__setattr__(self, "worth", ())
            object.__setattr__(self, "smallest", Smallest(why_not=f"not known: {why}"))
            object.__setattr__(self, "gaps", ())

    @property
    def not_known(self) -> str:
        """Why nothing is known of the profile, where that is so because programs cannot be used; else ''."""
        return why_unknown(self.rows, self.broken, self.edited)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the heat map, from left to right."""
        alone = (Column("alone", part) for part in self.parts)
        without = (Column("without", part) for part in self.parts)
        return (NONE, *alone, PROFILE, *without)

    def counts(self, column: Column) -> Counter[Mark]:
        return Counter(mark for row in self.rows if (mark := row.mark(column)) is not None)


def why_unknown(rows: Sequence[Row], broken: Sequence[Broken], edited: Sequence[str]) -> str:
    """Return why nothing can be said of any guard: programs changed meanwhile, or they cannot be used and no
    row tells it."""
    if edited:
        what = f"{', '.join(edited)} changed while the matrix ran"
        return f"{what}: run it again; --resume takes only cells of its text as it is then"
    told = (Mark.BITES, Mark.NOT_NEEDED, Mark.QUIET, Mark.FALSE_ALARM, Mark.UNSTEADY)
    if not broken or any(row.mark(NONE) in told for row in rows):
        return ""
    return "; ".join(dict.fromkeys(one.why for one in broken))
