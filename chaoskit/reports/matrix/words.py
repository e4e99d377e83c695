"""The words and signs that all reports of a matrix share. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from chaoskit.matrix.values import NONE, PROFILE, Cell, Column, Mark, Matrix, Row, Worth
from chaoskit.reports.wording import plural, words

SIGNS = {
    Mark.BITES: "●",
    Mark.HELD: "✓",
    Mark.NOT_HELD: "✗",
    Mark.QUIET: "✓",
    Mark.FALSE_ALARM: "!",
    Mark.NOT_NEEDED: "○",
    Mark.UNSTEADY: "≈",
    Mark.INCONCLUSIVE: "?",
    Mark.NOT_APPLICABLE: "·",
    Mark.SKIPPED: "–",
    Mark.NOT_RUN: "",
}
LATE_SIGN = "◐"
"""Not held, but the job ended nonzero within its bound: something else of the contract was broken."""

MEANING = {
    Mark.BITES: "without any guard the fault breaks the contract",
    Mark.HELD: "held: the contract is kept, and without any guard it is broken",
    Mark.NOT_HELD: "not held",
    Mark.QUIET: "a healthy twin completes",
    Mark.FALSE_ALARM: "false alarm: a healthy twin does not complete",
    Mark.NOT_NEEDED: "not needed: the contract is kept without any guard",
    Mark.UNSTEADY: "unsteady: it differs between repeats",
    Mark.INCONCLUSIVE: "inconclusive",
    Mark.NOT_APPLICABLE: "not applicable: no effect here",
    Mark.SKIPPED: "skipped: not run here, see the reason",
    Mark.NOT_RUN: "not run",
}
ENDED = "not held, though the job ended nonzero in time"


def sign(cell: Cell | None) -> str:
    """Return the one character that stands for a cell."""
    if cell is None:
        return ""
    return LATE_SIGN if cell.mark is Mark.NOT_HELD and cell.ended else SIGNS[cell.mark]


def said(cell: Cell) -> str:
    """Return the mark in words."""
    return ENDED if cell.mark is Mark.NOT_HELD and cell.ended else words(cell.mark)


def heading(column: Column) -> str:
    """Return how a column is called."""
    fixed = {"none": "no guard", "profile": "profile"}
    if column.form in fixed:
        return fixed[column.form]
    return column.part if column.form == "alone" else f"−{column.part}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names joined; of more than ``most`` the others are counted."""
    shown, more = list(names[:most]), len(names) - most
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def fitted(head: str, names: Sequence[str], width: int) -> str:
    """Return ``head`` and as many whole names as fit into ``width``; the others are counted."""
    for shown in range(len(names), 0, -1):
        line = head + listed(names, shown)
        if len(line) <= width:
            return line
    return head + listed(names, 1)


@dataclass(frozen=True, slots=True)
class Counts:
    """How the rows divide. ``held`` and ``quiet`` are those of the profile."""

    bite: int
    held: int
    not_needed: int
    twins: int
    quiet: int
    unclear: tuple[str, ...]
    skipped: tuple[str, ...]
    unknown: tuple[str, ...]  # not run yet
    not_held: tuple[str, ...]
    alarms: tuple[str, ...]


_UNCLEAR = (Mark.UNSTEADY, Mark.INCONCLUSIVE)


def counts(matrix: Matrix) -> Counts:
    """Return how the rows divide. Where nothing is known of the profile, nothing is counted of it."""

    def under(rows: Sequence[Row], column: Column, marks: Collection[Mark]) -> list[str]:
        return [row.scenario for row in rows if row.mark(column) in marks]

    unknown = [row for row in matrix.rows if Mark.NOT_RUN in (row.mark(NONE), row.mark(PROFILE))]
    known = [row for row in matrix.rows if row not in unknown]
    twins = [row for row in known if row.healthy]
    faults = [row for row in known if not row.healthy]
    unclear = [r for r in known if r.mark(NONE) in _UNCLEAR or r.mark(PROFILE) in _UNCLEAR]
    unclear += [r for r in twins if r.mark(NONE) is Mark.FALSE_ALARM and r not in unclear]
    skipped = tuple(under(known, PROFILE, (Mark.SKIPPED,)))
    if matrix.not_known:
        open_rows = tuple(row.scenario for row in unclear), skipped, tuple(row.scenario for row in unknown)
        return Counts(0, 0, 0, 0, 0, *open_rows, not_held=(), alarms=())
    return Counts(
        bite=len(under(faults, NONE, (Mark.BITES,))),
        held=len(under(faults, PROFILE, (Mark.HELD,))),
        not_needed=len(under(faults, NONE, (Mark.NOT_NEEDED,))),
        twins=len([row for row in twins if row.mark(NONE) is Mark.QUIET]),
        quiet=len(under(twins, PROFILE, (Mark.QUIET,))),
        unclear=tuple(row.scenario for row in unclear),
        skipped=skipped,
        unknown=tuple(row.scenario for row in unknown),
        not_held=tuple(under(faults, PROFILE, (Mark.NOT_HELD,))),
        alarms=tuple(under(twins, PROFILE, (Mark.FALSE_ALARM,))),
    )


def never(matrix: Matrix) -> tuple[str, ...]:
    """Return the parts with which no cell differed."""
    return tuple(w.part for w in matrix.worth if w.matters is False)


def open_parts(matrix: Matrix) -> tuple[str, ...]:
    """Return the parts of which it is not known whether they matter, though they have an effect here."""
    worths = (w for w in matrix.worth if w.matters is None and not w.replaceable)
    return tuple(w.part for w in worths if not w.not_applicable)


def replaceable(matrix: Matrix) -> tuple[str, ...]:
    """Return the parts that the profile does without one at a time, because others take their place."""
    return tuple(w.part for w in matrix.worth if w.replaceable)


def worth_line(worth: Worth, interrupted: bool = False) -> str:
    """Return what a part is worth, in one line; of a part of which no cell was run that is not known."""
    if worth.not_applicable:
        return "no effect here"
    if not worth.told_cells:
        return "not known yet" if interrupted else "not known: none of its cells was run"
    facts = [
        f"holds {len(worth.alone)} alone",
        f"needed for {len(worth.needed)}",
        "can be replaced by another" if worth.replaceable else "",
        f"in the way of {len(worth.hinders)}" if worth.hinders else "",
        plural(len(worth.alarms), "false alarm") if worth.alarms else "",
        f"unclear in {len(worth.unclear)}" if worth.unclear else "",
    ]
    return ", ".join(fact for fact in facts if fact)


def smallest_lines(matrix: Matrix) -> list[str]:
    """Return what is said of the smallest set, the verdict first."""
    found = matrix.smallest
    if matrix.not_known:
        return [f"smallest set: not known: {matrix.not_known}"]
    if found.confirmed is None:
        lines = [f"smallest set: none found: {found.why_not}"]
        if found.tried:
            last = found.tried[-1]
            why = (
                f"does not hold {listed(last.broken)}" if last.broken else f"unclear: {listed(last.unclear)}"
            )
            lines.append(
                f"the last of {plural(len(found.tried), 'set')} run, {' + '.join(last.parts)}, {why}"
            )
        return lines
    run = next(t for t in reversed(found.tried) if t.parts == found.confirmed)
    kept = f"run over the {plural(run.scenarios, 'scenario')} that the profile keeps, and keeps them all"
    lines = [f"smallest set: {' + '.join(found.confirmed)} (confirmed: {kept})"]
    if found.needed:
        proofs = [f"{part} ({scenario})" for part, scenario in found.needed]
        lines.append(f"in the set each is needed, run without it: {listed(proofs, 20)}")
    if found.unproved:
        lines.append(f"not shown to be needed: {', '.join(found.unproved)}")
    if found.others:
        lines.append(f"by the cells {plural(found.others, 'other set')} of that size may do as well; not run")
    return lines


def held_lines(matrix: Matrix) -> list[str]:
    """Return what is known of the profile as a whole; only rows that were run count."""
    if matrix.not_known:
        return [f"not known: {matrix.not_known}"]
    found = counts(matrix)
    if found.unknown and not (found.bite or found.twins or found.not_needed):
        return ["not known yet"]
    skipped = len(found.skipped)
    if skipped == len(matrix.rows) - len(found.unknown) and skipped:
        return [f"not known: {plural(skipped, 'scenario')} skipped, none run"]
    facts = ["no fault that bites"]
    if found.bite:
        facts = [f"holds {found.held} of {plural(found.bite, 'fault')} that {_bite(found.bite)}"]
    if found.twins:
        facts.append(f"quiet about {found.quiet} of {plural(found.twins, 'healthy twin')}")
    if found.unknown:
        facts.append(f"{plural(len(found.unknown), 'scenario')} not known yet")
    return facts


def _bite(count: int) -> str:
    return "bites" if count == 1 else "bite"


_OPEN = (Mark.INCONCLUSIVE, Mark.SKIPPED)
_TOLD = (Mark.NOT_HELD, Mark.FALSE_ALARM, Mark.UNSTEADY, *_OPEN)


def reasons(matrix: Matrix) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return what came of the profile where it was not what one wants: the mark in words, the reason, and the
    scenarios of which both are true."""
    found: dict[tuple[Mark, str, str], list[str]] = {}
    for row in matrix.rows:
        cell = row.cell(PROFILE)
        if cell is not None and cell.mark in (_OPEN if matrix.not_known else _TOLD):
            found.setdefault((cell.mark, said(cell), cell.reason), []).append(row.scenario)
    ranked = sorted(found.items(), key=lambda one: _TOLD.index(one[0][0]))
    return [(mark, reason, tuple(names)) for (_, mark, reason), names in ranked]


def gap_lines(matrix: Matrix) -> list[str]:
    """Return what the profile lacks: first what can be added and what that holds, then what nothing holds."""
    helps: dict[str, list[str]] = {}
    changed: set[str] = set()
    alarms: dict[str, list[str]] = {}
    for gap in matrix.gaps:
        changed.update(gap.changed)
        for part in gap.helps:
            helps.setdefault(part, []).append(gap.scenario)
        for part, twin in gap.alarms:
            if twin not in alarms.setdefault(part, []):
                alarms[part].append(twin)
    lines = []
    for part, names in sorted(helps.items(), key=lambda one: -len(one[1])):
        what = f"{part}, set as in the scenario's own profile" if part in changed else f"{part}, added"
        cost = f"; but false alarm in {listed(alarms[part])}" if part in alarms else ""
        lines.append(f"{what}: holds {listed(names)}{cost}")
    for gap in (gap for gap in matrix.gaps if not gap.helps):
        own = f"; {gap.own_profile} as a whole: {words(gap.own)}" if gap.own is not None else ""
        lines.append(f"no single addition holds {gap.scenario}{own}")
    return lines


def effort_line(matrix: Matrix) -> str:
    """Return the wall time against the sum of the cells."""
    effort = matrix.effort
    if not effort.run:
        return f"no cell was run; {plural(effort.kept, 'cell')} kept from before"
    ratio = faster(matrix)
    gain = f", {ratio:.1f} × faster than one after the other" if ratio is not None else ""
    kept = f"; {effort.kept} kept from before" if effort.kept else ""
    said = f"{plural(effort.run, 'run')} of cells in {effort.wall_s:.0f} s, {effort.sum_s:.0f} s in sum"
    return f"{said}{gain}{kept}"


def faster(matrix: Matrix) -> float | None:
    """Return by how much running side by side was faster. None after an interruption: the wall time has in it
    what was spent on cells that were cut off, and on ending them."""
    effort = matrix.effort
    return None if matrix.interrupted or not effort.wall_s else effort.sum_s / effort.wall_s


def broken_lines(matrix: Matrix) -> list[str]:
    """Return which programs cannot be used, why, where that is not said of the whole, and where what they
    wrote lies."""
    return [
        f"{one.program}: {'' if matrix.not_known else one.why + '; '}its output is in {one.folder}"
        for one in matrix.broken
    ]


def resume_line(matrix: Matrix) -> str:
    """Return how to go on; a word on what has to be given again stands before it, the command last."""
    origin = matrix.origin
    note = f" ({origin.resume_note})" if origin.resume_note else ""
    return f"go on with{note}: {origin.resume}"
