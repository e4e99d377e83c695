"""Finds the arms in run directories, has each judged from its files, and puts them together again.

The files may be damaged, cut off or foreign: each of these is a problem that names the folder,
and an arm that cannot be judged counts as inconclusive, never as absent.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit import rundir
from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Backend, ScenarioResult, Status, Verdict
from chaoskit.reports.judged import Judged

_ARM_FOLDER = re.compile(r"(?P<arm>.+?)(?:-r(?P<repeat>\d{1,9}))?(?:-a(?P<attempt>\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class Judge:
    """How an arm's folder and a scenario's arms are judged."""

    arm: Callable[[Path], Verdict]
    """The verdict of an arm's folder. Raises InvalidInput."""
    is_healthy: Callable[[str], bool]
    """Whether the plan (the text of plan.json) is of a healthy scenario."""
    scenario: Callable[[str, Backend, bool, Sequence[Verdict]], ScenarioResult]


@dataclass(frozen=True, slots=True)
class _Arm:
    run_dir: Path
    verdict: Verdict
    healthy: bool
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Record:
    """What run.json says; None and '' where it does not say it."""

    seed: int | None = None
    torch: str = ""
    wall_s: float = 0.0


def judge_folders(paths: Sequence[Path], how: Judge) -> tuple[Judged | None, list[Problem]]:
    """Judge all arms in and below ``paths``; None where not one of them can be judged."""
    problems: list[Problem] = []
    folders: dict[Path, None] = {}
    for path in paths:
        found = list(_arm_dirs(path, problems))
        folders.update(dict.fromkeys(found))
    arms = [_judged(folder, how) for folder in folders]
    problems += [p for arm in arms for p in arm.problems]
    if all(arm.problems for arm in arms):
        return None, problems
    runs = list(dict.fromkeys(arm.run_dir for arm in arms))
    records = [_record(run, problems) for run in runs]
    seeds = {r.seed for r in records}
    return (
        Judged(
            run_dir=runs[0] if len(runs) == 1 else Path(os.path.commonpath(runs)),
            seed=seeds.pop() if len(seeds) == 1 else None,
            torch=", ".join(dict.fromkeys(r.torch for r in records if r.torch)),
            scenarios=tuple(_scenarios(arms, how)),
            wall_s=sum(r.wall_s for r in records),
        ),
        problems,
    )


def _arm_dirs(path: Path, problems: list[Problem]) -> Iterator[Path]:
    try:
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "there is no such folder"
            problems.append(Problem(what, str(path), hint="judge needs the folder of a run, or of an arm"))
            return
        found = [folder.resolve() for folder in rundir.arm_dirs(path)]
    except (OSError, ValueError, RuntimeError) as error:
        problems.append(Problem(f"cannot be read: {error}", str(path)))
        return
    if not found:
        problems.append(Problem("holds no arm of a run (no plan.json)", str(path)))
    yield from found


def _judged(folder: Path, how: Judge) -> _Arm:
    run_dir = next((p for p in folder.parents if (p / "run.json").is_file()), folder)
    try:
        healthy = how.is_healthy((folder / "plan.json").read_text(encoding="utf-8"))
        return _Arm(run_dir, how.arm(folder), healthy)
    except InvalidInput as error:
        problems = tuple(
            Problem(p.message, str(folder / (p.file or "plan.json")), p.line, p.hint) for p in error.problems
        )
    except Exception as error:  # noqa: BLE001 - files that no check foresaw must not hide the other arms
        problems = (Problem(f"cannot be judged: {type(error).__name__}: {error}", str(folder)),)
    return _Arm(run_dir, _unjudged(folder, problems), healthy=False, problems=problems)


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


def _scenarios(arms: Sequence[_Arm], how: Judge) -> Iterator[ScenarioResult]:
    """Put the arms of each scenario of each run together, in order of repeat and attempt."""
    groups: dict[tuple[Path, str, Backend], list[_Arm]] = {}
    for arm in arms:
        groups.setdefault((arm.run_dir, arm.verdict.scenario, arm.verdict.backend), []).append(arm)
    for (_, name, backend), members in groups.items():
        members.sort(key=lambda a: (a.verdict.arm, a.verdict.repeat, a.verdict.attempt))
        healthy = any(a.healthy for a in members)
        yield how.scenario(name, backend, healthy, [a.verdict for a in members])


def _record(run_dir: Path, problems: list[Problem]) -> _Record:
    file = run_dir / "run.json"
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
