"""Looks at each program of the user's once, without any fault, before any cell is run.

All cells of a matrix are made by this one look, so that faults strike at the same moments and bounds are
equal in all of them. It is kept beside the cells: a matrix that is gone on with looks again only at a program
that has changed, or of which it cannot be known whether it has.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from chaoskit import engine, judging
from chaoskit.agenda import Agenda, plans_of_looks
from chaoskit.errors import ChaoskitError
from chaoskit.matrix.batch import Bench
from chaoskit.matrix.keeping import Record
from chaoskit.matrix.keys import UNKNOWABLE, key
from chaoskit.matrix.program import Programs
from chaoskit.matrix.values import Broken
from chaoskit.model import Workload
from chaoskit.request import RunRequest
from chaoskit.scenario.survey import Seen, Survey, survey_of

HISTORY = "history.jsonl"


def programs_of(request: RunRequest) -> tuple[Workload, ...]:
    """Return the users' programs that are run: the one given, else those of the scenarios' files."""
    if request.program is not None:
        return (request.program,)
    return tuple(dict.fromkeys(s.workload for s in request.scenarios if not s.workload.is_built_in))


def conditions(request: RunRequest) -> dict[str, str]:
    """Return what can be known of the users' programs, by how people call it."""
    programs = Programs()
    found = {program.name: programs.of(program).digest for program in programs_of(request)}
    return {f"{name} (or its files, folder, packages)": digest for name, digest in found.items() if digest}


def look(bench: Bench) -> None:
    """Put into the bench what each program does by itself. Raises InvalidInput where something cannot be run
    as asked, ChaoskitError where what was written cannot be read."""
    if not programs_of(bench.request.run):
        return
    plans = plans_of_looks(bench.asked, Agenda(bench.asked, bench.seed, True).items(), bench.seed, True)
    programs = Programs()
    keys = {program: key(plan, bench.torch, programs) for program, plan in plans.items()}
    surveys = {program: found for program, k in keys.items() if (found := _kept(bench, k)) is not None}
    missing = [program for program in plans if program not in surveys]
    broken: dict[Workload, str] = {}
    if missing:
        for program in missing:
            bench.observer.program_started(program.name)
        seen, broken = _run(bench, Seen(surveys), keys, programs)
        surveys |= seen
    bench.seen = Seen(surveys, broken)


def _kept(bench: Bench, key: str) -> Survey | None:
    """What is kept of an earlier look; None where there is none, or its history cannot be read."""
    record = bench.kept.get(key) if key != UNKNOWABLE else None
    return None if record is None else _survey(bench.folder / record.folder)


def _survey(folder: Path) -> Survey | None:
    try:
        found, problems = judging.events_of(folder / HISTORY)
    except (OSError, UnicodeDecodeError):
        return None
    return None if problems else survey_of(found)


def _run(
    bench: Bench, known: Seen, keys: Mapping[Workload, str], programs: Programs
) -> tuple[dict[Workload, Survey], dict[Workload, str]]:
    """Run the programs that are not known; what completes is kept. The look is read from its files, as it is
    when the matrix is gone on with: both have to come to the same plans."""
    began = time.monotonic()
    looks, bench.interrupted = engine.look(bench.asked, known)
    took_s = time.monotonic() - began
    bench.tally.wall_s += took_s
    surveys, broken = {}, {}
    for program, one in looks.items():
        if bench.interrupted and one.broken:
            continue
        bench.observer.program_ended(program.name, one.broken)
        if one.broken:
            broken[program] = one.broken
            bench.broken = (*bench.broken, Broken(program.name, one.broken, str(one.folder)))
            continue
        survey = _survey(one.folder)
        if survey is None:
            raise ChaoskitError(f"{one.folder / HISTORY} cannot be read again")
        surveys[program] = survey
        if keys[program] != UNKNOWABLE and programs.unchanged(program):
            shown = one.folder.relative_to(bench.folder.resolve())
            bench.kept.put(keys[program], Record(one.verdict, round(took_s, 3), None, str(shown)))
    return surveys, broken
