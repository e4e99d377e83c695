"""Judges a run again from its files alone, also where its ranks wrote them on several machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from chaoskit import codec, history
from chaoskit.errors import InvalidInput, Problem
from chaoskit.evidence import parameters
from chaoskit.history import ArmEnded, Ended, Event, History, Malfunction, Started
from chaoskit.history_file import Reader
from chaoskit.judge import clocks, condensing, contract, first_difference
from chaoskit.judge.settled import Tally
from chaoskit.model import Status, Verdict
from chaoskit.operations import Forms
from chaoskit.rank import joining, region
from chaoskit.recorded import Gathering

SURELY_SMALL, HUGE = 1 << 20, 256 << 20
"""Bytes: a smaller file holds no history that is large in events; a larger one holds millions of them."""


def judge_again(arm_dir: Path, *others: Path) -> Verdict:
    """Return the verdict of an arm from its files alone.

    ``others`` are folders of the same arm from other machines; their ranks' files are put together. Raises
    InvalidInput where there is nothing to judge, or nothing readable. A damaged history is judged as far as
    it goes, and is inconclusive.
    """
    folders = (arm_dir, *others)
    try:
        plan = codec.load_plan((arm_dir / "plan.json").read_text(encoding="utf-8"))
        if (skipped := _skipped(arm_dir)) is not None:
            return skipped
        found, notes = _collected(folders) if _has_rank_files(folders) else (_read(arm_dir), ())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput([Problem(f"cannot be judged: {error}", str(arm_dir))]) from None
    apart = first_difference.events(found.events, parameters.kept(*folders))
    found = History.of((*found.events, *apart)) if apart else found
    return contract.judge(dataclasses.replace(plan, notes=(*plan.notes, *notes)), found)


def _read(arm_dir: Path) -> History:
    found, problems = events_of(arm_dir / "history.jsonl")
    if problems:
        count = "1 line" if len(problems) == 1 else f"{len(problems)} lines; first"
        return _doubted(found, f"the history is damaged ({count}: {problems[0]})")
    if not found.all(Malfunction) and not found.all(ArmEnded):
        return _doubted(found, "the history ends before the arm did: its last lines are missing")
    return found


def events_of(path: Path) -> tuple[History, Sequence[Problem]]:
    """Read the history in a file, and what is wrong with its lines. A large one is gone through twice and
    condensed, and never in memory as a whole."""
    size = path.stat().st_size
    if size < SURELY_SMALL:
        return history.read(path)
    room = condensing.COARSE if size > HUGE else condensing.ROOM
    first = Reader(path)
    tally = Tally(room.shift)
    tally.see(first.forms, first)
    if tally.size <= condensing.LARGE:
        return history.read(path)

    def again() -> tuple[Forms, Reader]:
        reader = Reader(path)
        return reader.forms, reader

    return History(tuple(condensing.kept(tally, again, room))), first.problems


def _has_rank_files(folders: Sequence[Path]) -> bool:
    return any(True for f in folders for _ in f.glob(f"rank*/{joining.KEEPER_FILE}"))


def _collected(folders: Sequence[Path]) -> tuple[History, tuple[str, ...]]:
    """What the ranks and their keepers wrote into files, in order, on one clock; and what to say of that."""
    gathering = Gathering()
    doubts: list[str] = []
    for folder in folders:
        if (folder / "history.jsonl").exists():  # of the runner's machine, which saw its own ranks live
            for event in _read(folder).events:
                gathering.add(event)
        files = joining.read_files(folder)
        doubts += files.doubts
        for slot, body in files.ranks.items():
            region.read_into(gathering, body, slot)
        for slot, body in files.keepers.items():
            seen = region.read_notes(body, slot)[0]
            for event in seen:
                gathering.add(event)
            if _ended_well(seen) and region.is_untouched(files.ranks.get(slot, b"")):
                doubts.append(f"rank {slot} ended with 0, and its file is empty: it was not recorded")
    found, notes = clocks.aligned(History(tuple(condensing.events_of(gathering.done()))))
    ended = {e.slot for e in found.all(Ended)}
    open_ends = sorted({e.slot for e in found.all(Started)} - ended)
    if doubts:
        return _doubted(found, "; ".join(doubts)), notes
    if open_ends:
        listed = ", ".join(map(str, open_ends))
        why = f"nobody saw the end of ranks {listed}: they still run, or their keeper was killed"
        return _doubted(found, why), notes
    last_s = max((e.t_s for e in found.events), default=0.0)
    return History.of((*found.events, ArmEnded(last_s, -1))), notes


def _ended_well(seen: Sequence[Event]) -> bool:
    return any(isinstance(e, Ended) and e.exit_code == 0 for e in seen)


def _doubted(found: History, why: str) -> History:
    return History.of((*found.events, Malfunction(0.0, -1, why)))


def _skipped(arm_dir: Path) -> Verdict | None:
    """The verdict of an arm that was not run: it has no history, and nothing to judge anew."""
    kept = arm_dir / "verdict.json"
    if (arm_dir / "history.jsonl").exists() or not kept.exists():
        return None
    verdict = codec.load_verdict(kept.read_text(encoding="utf-8"))
    return verdict if verdict.outcome is None and verdict.status is not Status.PASS else None
