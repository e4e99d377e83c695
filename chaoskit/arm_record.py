"""What there is of one arm on the disk, as a report reads it: plan, operations, findings, last output.

Reads one arm at a time, so that a report of many needs the memory of one. Whatever is missing or damaged is a
problem in words, never an exception: a report of a broken run is still a report. Judges nothing.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaoskit import codec, recorded
from chaoskit.errors import InvalidInput
from chaoskit.evidence import findings as found_of
from chaoskit.evidence.findings import RankFindings
from chaoskit.history import Event, History
from chaoskit.judge import clocks
from chaoskit.model import Plan, Status, Verdict
from chaoskit.rank import joining, region
from chaoskit.recorded import Recorded

PLAN, HISTORY, LAUNCHER = "plan.json", "history.jsonl", "launcher"
PROBLEMS_MAX: Final = 20
"""A damaged history has a problem for each of its lines: more of them are counted."""


@dataclass(frozen=True, slots=True)
class ArmRecord:
    """One arm. ``plan`` is None where there is none that can be read; ``output`` are the last lines that each
    process printed, by what it is called (``rank 1``: the process in slot 1, ``launcher``)."""

    folder: Path
    verdict: Verdict
    plan: Plan | None = None
    recorded: Recorded = field(default_factory=Recorded)
    findings: tuple[RankFindings, ...] = ()
    output: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def read(folder: Path, verdict: Verdict, *others: Path) -> ArmRecord:
    """Return what ``folder`` holds of the arm that ``verdict`` speaks of.

    ``others`` are folders of the same arm from other machines, in which its ranks have written.
    """
    problems: list[str] = []
    plan = _plan(folder, problems)
    folders = (folder, *others)
    if any(True for f in folders for _ in f.glob(f"rank*/{joining.KEEPER_FILE}")):
        history = _of_rank_files(folders, problems)
    else:
        history = _recorded(folder, verdict, problems)
    ranks = tuple(sorted((r for f in folders for r in found_of.read_all(f)), key=lambda r: r.slot))
    printed = {f"rank {f.slot}": f.last_output for f in ranks if f.last_output}
    if said := found_of.read(folder / LAUNCHER).last_output:
        printed[LAUNCHER] = said
    return ArmRecord(folder, verdict, plan, history, ranks, printed, tuple(problems))


def _plan(folder: Path, problems: list[str]) -> Plan | None:
    try:
        return codec.load_plan((folder / PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems.append(f"there is no {PLAN}: what was promised is not known")
    except InvalidInput as error:
        problems.append(f"{PLAN} cannot be read: {error.problems[0].message}")
    except (OSError, ValueError) as error:
        problems.append(f"{PLAN} cannot be read: {error}")
    return None


def _of_rank_files(folders: Sequence[Path], problems: list[str]) -> Recorded:
    """What ranks and their keepers wrote into files of their own, on one clock."""
    events: list[Event] = []
    for folder in folders:
        if (folder / HISTORY).exists():  # of the runner's machine, which saw its own ranks live
            with contextlib.suppress(OSError):
                events += recorded.read(folder / HISTORY).all_events()
        files = joining.read_files(folder)
        problems += files.doubts
        for slot, body in files.ranks.items():
            events += region.read_events(body, slot)
        for slot, body in files.keepers.items():
            events += region.read_notes(body, slot)[0]
    return recorded.gathered(clocks.aligned(History.of(events))[0].events)


def _recorded(folder: Path, verdict: Verdict, problems: list[str]) -> Recorded:
    nothing = Recorded()
    try:
        history = recorded.read(folder / HISTORY)
    except FileNotFoundError:
        if verdict.status is not Status.SKIPPED:
            problems.append(f"there is no {HISTORY}: what the ranks did is not known")
        return nothing
    except OSError as error:
        problems.append(f"{HISTORY} cannot be read: {error.strerror or error}")
        return nothing
    problems += itertools.islice(history.problems, PROBLEMS_MAX)
    if (more := len(history.problems) - PROBLEMS_MAX) > 0:
        problems.append(f"{more} more lines of {HISTORY} cannot be read")
    return history
