"""Finds the arms in run directories, has each judged from its files, and puts them together again.

The ranks of an arm that another launcher started may have written on several machines: folders with the
same plan in which no supervisor has written are one arm. The files may be damaged, cut off or foreign: each
of these is a problem that names the folder, and an arm that cannot be judged counts as inconclusive, never
as absent.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaoskit import rundir
from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Backend, ScenarioResult, Status, Verdict
from chaoskit.reports.judged import Judged
from chaoskit.request import WATCH

PLAN, HISTORY, RECORD = "plan.json", "history.jsonl", "run.json"
SURVEY = "survey"
"""Such a folder of a run holds what a program did without any fault (``survey-2``: another one)."""
_ARM_FOLDER = re.compile(r"(?P<arm>.+?)(?:-r(?P<repeat>\d{1,9}))?(?:-a(?P<attempt>\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What a plan says that no verdict does."""

    healthy: bool
    seed: int
    completes: bool = False
    """The hardened contract is one of a job that completes."""


@dataclass(frozen=True, slots=True)
class Judge:
    """How the folders of an arm and the arms of a scenario are judged."""

    arm: Callable[[Sequence[Path]], Verdict]
    """The verdict of an arm that was written into these folders. Raises InvalidInput."""
    read_plan: Callable[[str], PlanFacts]
    """What the plan (the text of plan.json) says. Raises InvalidInput."""
    scenario: Callable[[str, Backend, bool, Sequence[Verdict], bool], ScenarioResult]
    """Of a scenario: name, backend, healthy, the verdicts of its arms, completes."""


@dataclass(frozen=True, slots=True)
class _Arm:
    run_dir: Path
    verdict: Verdict
    folders: tuple[Path, ...]
    facts: PlanFacts | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgedAgain:
    """What came of judging; ``judged`` is None where not one arm can be.

    ``folders`` are those of ``judged.verdicts``, in their order.
    """

    judged: Judged | None
    problems: list[Problem]
    folders: tuple[tuple[Path, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class _Record:
    """What run.json says; None and '' where it does not say it."""

    seed: int | None = None
    torch: str = ""
    wall_s: float = 0.0


_NO_RUN = Path()


def judge_folders(paths: Sequence[Path], how: Judge) -> tuple[Judged | None, list[Problem]]:
    """Judge all arms in and below ``paths``; None where not one of them can be judged."""
    again = judge_arms(paths, how)
    return again.judged, again.problems


def judge_arms(paths: Sequence[Path], how: Judge) -> JudgedAgain:
    """Judge all arms in and below ``paths``, and say where each of them is."""
    problems: list[Problem] = []
    folders: dict[Path, None] = {}
    for path in paths:
        found = list(_arm_dirs(path, problems))
        folders.update(dict.fromkeys(found))
    arms = [_judged(together, how) for together in _by_arm(list(folders))]
    problems += [p for arm in arms for p in arm.problems]
    if all(arm.problems for arm in arms):
        return JudgedAgain(None, problems)
    loose = [folder for folder in folders if _run_of(folder) is None]
    together_in = Path(os.path.commonpath(loose)) if loose else _NO_RUN
    arms = [replace(a, run_dir=together_in) if a.run_dir == _NO_RUN else a for a in arms]
    runs = list(dict.fromkeys(arm.run_dir for arm in arms))
    records = [_record(run, arms, problems) for run in runs]
    seeds = {r.seed for r in records}
    scenarios = _by_scenario(arms)
    judged = Judged(
        run_dir=runs[0] if len(runs) == 1 else Path(os.path.commonpath(runs)),
        seed=seeds.pop() if len(seeds) == 1 else None,
        torch=", ".join(dict.fromkeys(r.torch for r in records if r.torch)),
        scenarios=tuple(_result(members, how) for members in scenarios),
        wall_s=sum(r.wall_s for r in records),
    )
    return JudgedAgain(judged, problems, tuple(arm.folders for members in scenarios for arm in members))


def _arm_dirs(path: Path, problems: list[Problem]) -> Iterator[Path]:
    try:
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "there is no such folder"
            problems.append(Problem(what, str(path), hint="give the folder of a run, or of an arm"))
            return
        found = [folder.resolve() for folder in rundir.arm_dirs(path)]
        found = [f for f in found if f == path.resolve() or not _is_survey(f)]
    except (OSError, ValueError, RuntimeError) as error:
        problems.append(Problem(f"cannot be read: {error}", str(path)))
        return
    if not found:
        problems.append(Problem(f"holds no arm of a run (no {PLAN})", str(path)))
    yield from found


def _is_survey(folder: Path) -> bool:
    """Whether a program was watched here before a run, to see what it does: that is no arm of the run."""
    if not re.fullmatch(rf"{SURVEY}(-\d+)?(@\w+)?", folder.parent.name):
        return False
    with contextlib.suppress(OSError, ValueError, RecursionError):
        plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        return isinstance(plan, dict) and plan.get("scenario") == WATCH
    return False


def _by_arm(folders: Sequence[Path]) -> list[list[Path]]:
    """Put together the folders of one arm: the same plan, and at most one of them written by a supervisor."""
    same_plan: dict[bytes | Path, list[Path]] = {}
    for folder in folders:
        key: bytes | Path = folder
        with contextlib.suppress(OSError):
            key = (folder / PLAN).read_bytes() or folder
        same_plan.setdefault(key, []).append(folder)
    place = {folder: number for number, folder in enumerate(folders)}
    arms = [arm for same in same_plan.values() for arm in _apart(same)]
    return sorted(arms, key=lambda arm: min(place[folder] for folder in arm))


def _apart(folders: list[Path]) -> list[list[Path]]:
    """Two runs with the same seed have the same plans and are two all the same."""
    supervised = [f for f in folders if (f / HISTORY).exists() or _run_of(f) is not None]
    parts = [f for f in folders if f not in supervised]
    if len(supervised) <= 1:
        return [[*supervised, *parts]]
    return [*([f] for f in supervised), *([parts] if parts else [])]


def _run_of(folder: Path) -> Path | None:
    return next((p for p in folder.parents if (p / RECORD).is_file()), None)


def _judged(folders: Sequence[Path], how: Judge) -> _Arm:
    folder = folders[0]
    # Arms without a run (ranks that another launcher started) belong together by their scenario alone.
    run_dir = _run_of(folder) or _NO_RUN
    try:
        facts = how.read_plan((folder / PLAN).read_text(encoding="utf-8"))
        return _Arm(run_dir, how.arm(folders), tuple(folders), facts)
    except InvalidInput as error:
        problems = tuple(
            Problem(p.message, str(folder / (p.file or PLAN)), p.line, p.hint) for p in error.problems
        )
    except FileNotFoundError as error:
        problems = (Problem(_not_there(error), str(folder)),)
    except Exception as error:  # noqa: BLE001 - files that no check foresaw must not hide the other arms
        problems = (Problem(f"cannot be judged: {type(error).__name__}: {error}", str(folder)),)
    return _Arm(run_dir, _unjudged(folder, problems), tuple(folders), problems=problems)


def _not_there(error: FileNotFoundError) -> str:
    return f"there is no {Path(str(error.filename)).name}, without which it cannot be judged"


def _unjudged(folder: Path, problems: tuple[Problem, ...]) -> Verdict:
    """Return an inconclusive verdict of the arm whose folder this is, going by the folders' names."""
    name, _, backend = folder.parent.name.partition("@")
    match = _ARM_FOLDER.fullmatch(folder.name)
    arm, repeat, attempt = match.group("arm", "repeat", "attempt") if match else (folder.name, None, None)
    return Verdict(
        scenario=name,
        arm=arm,
        repeat=int(repeat or 1),
        attempt=int(attempt or 1),
        backend="nccl" if backend == "nccl" else "gloo",
        profile="",
        status=Status.INCONCLUSIVE,
        reason=f"its files cannot be read: {problems[0].message}" if problems else "its files cannot be read",
    )


def _by_scenario(arms: Sequence[_Arm]) -> list[list[_Arm]]:
    """Put the arms of each scenario of each run together, in order of repeat and attempt."""
    groups: dict[tuple[Path, str, Backend], list[_Arm]] = {}
    for arm in arms:
        groups.setdefault((arm.run_dir, arm.verdict.scenario, arm.verdict.backend), []).append(arm)
    for members in groups.values():
        members.sort(key=lambda a: (a.verdict.arm, a.verdict.repeat, a.verdict.attempt))
    return list(groups.values())


def _result(members: Sequence[_Arm], how: Judge) -> ScenarioResult:
    first = members[0].verdict
    facts = [a.facts for a in members if a.facts is not None]
    healthy, completes = any(f.healthy for f in facts), any(f.completes for f in facts)
    return how.scenario(first.scenario, first.backend, healthy, [a.verdict for a in members], completes)


def _record(run_dir: Path, arms: Sequence[_Arm], problems: list[Problem]) -> _Record:
    file = run_dir / RECORD
    if not file.exists():  # ranks that another launcher started: there was no run, only its plan
        seeds = {a.facts.seed for a in arms if a.run_dir == run_dir and a.facts is not None}
        return _Record(seed=seeds.pop() if len(seeds) == 1 else None)
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        problems.append(
            Problem(f"cannot be read: {error}", str(file), hint="seed and versions are not known")
        )
        return _Record()
    if not isinstance(raw, dict):
        problems.append(Problem("is not the record of a run", str(file)))
        return _Record()
    seed, torch, wall_s = raw.get("seed"), raw.get("torch", ""), raw.get("wall_s")
    versions = raw.get("versions")
    if isinstance(versions, dict):
        torch = versions.get("torch", torch)
    return _Record(
        seed if isinstance(seed, int) else None,
        torch if isinstance(torch, str) else "",
        wall_s if isinstance(wall_s, (int, float)) and math.isfinite(wall_s) else 0.0,
    )
