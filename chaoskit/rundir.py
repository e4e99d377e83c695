"""The folder of a run: where each arm's files go, and run.json. Folders are 0700.

``runs/<time>-<seed>/`` holds run.json and ``<scenario>/<arm>[-r<repeat>][-a<attempt>]/`` with
plan.json, history.jsonl, verdict.json and rank<N>/. ``again/`` is described in :mod:`chaoskit.filing`.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from chaoskit import private
from chaoskit.errors import usage
from chaoskit.launchers.forkserver import LEFT_OUT
from chaoskit.redacting import SECRET_NAME, Redactor
from chaoskit.request import ArmId
from chaoskit.secret_shapes import HIDDEN

_PLAN = "plan.json"
_RANK_FOLDER = re.compile(r"rank\d+")


def create(runs_dir: Path, seed: int) -> Path:
    """Make and return a new run directory. Raises InvalidInput where it cannot be written."""
    base = f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}"
    for suffix in ("", *(f".{n}" for n in range(1, 1000))):
        path = runs_dir / f"{base}{suffix}"
        try:
            path.mkdir(parents=True, mode=0o700)
            return path.resolve()
        except FileExistsError:
            continue
        except OSError as error:
            raise usage(
                f"cannot write the run directory {path}: {error.strerror}", "choose another --runs-dir"
            ) from None
    raise usage(f"no free name for a run directory in {runs_dir}")


def arm_dir(run_dir: Path, arm: ArmId) -> Path:
    """Return the folder of one arm of the run."""
    name = arm.arm
    name += f"-r{arm.repeat}" if arm.repeat > 1 else ""
    name += f"-a{arm.attempt}" if arm.attempt > 1 else ""
    scenario = arm.scenario if arm.backend == "gloo" else f"{arm.scenario}@{arm.backend}"
    return run_dir / scenario / name


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What run.json says of the run as a whole."""

    command: str
    seed: int
    torch: str
    started: str
    interrupted: bool = False
    wall_s: float | None = None


def write_record(run_dir: Path, record: RunRecord, redactor: Redactor | None = None) -> None:
    """Write run.json, with versions and the redacted environment. Replaces an earlier one."""
    redactor = redactor or Redactor.of(os.environ)
    body = {
        "schema_version": 1,
        "command": redactor.command(record.command),
        "seed": record.seed,
        "started": record.started,
        "wall_s": record.wall_s,
        "interrupted": record.interrupted,
        "versions": {
            "chaoskit": version("chaoskit"),
            "torch": record.torch,
            "python": platform.python_version(),
            "kernel": platform.release(),
        },
        "cores": len(os.sched_getaffinity(0)),
        "environment": redacted(os.environ, redactor),
        "not_given_to_ranks": sorted(n for n in os.environ if n.startswith(LEFT_OUT)),
    }
    temporary = run_dir / "run.json.tmp"
    private.write(temporary, json.dumps(body, indent=1, sort_keys=True) + "\n")
    temporary.replace(run_dir / "run.json")


def redacted(environment: Mapping[str, str], redactor: Redactor | None = None) -> dict[str, str]:
    """Return the variables that matter to a training job, with anything that looks secret blanked."""
    kept = (
        "TORCH", "NCCL", "GLOO", "OMP_", "MKL_", "CUDA", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_", "SLURM_",
        "PYTHON", "LD_", "KUBERNETES_SERVICE_HOST", "CHAOSKIT",
    )  # fmt: skip
    redactor = redactor or Redactor.of(environment)
    return {
        key: HIDDEN if SECRET_NAME.search(key) else redactor.variable(key, value)
        for key, value in sorted(environment.items())
        if key.startswith(kept)
    }


def version(package: str) -> str:
    """Return the installed version of ``package`` without importing it, or "" where there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def arm_dirs(path: Path) -> Iterator[Path]:
    """Yield the arm folders at or below ``path`` in order: those with a plan.json, and those that lost it."""
    if (path / _PLAN).is_file():
        yield path
        return
    planned = [p.parent for p in path.glob(f"**/{_PLAN}")]
    yield from sorted([*planned, *_without_plan(path, planned)])


def _without_plan(path: Path, planned: list[Path]) -> list[Path]:
    """Return the folders in which an arm has written and that have no plan, in no arm and above none."""
    written = [p.parent for name in ("history.jsonl", "verdict.json") for p in path.glob(f"**/{name}")]
    written += [p.parent for p in path.glob("**/rank*") if _RANK_FOLDER.fullmatch(p.name) and p.is_dir()]
    above = {folder for arm in planned for folder in (arm, *arm.parents)}
    arms, found = set(planned), []
    for folder in sorted(set(written)):
        if folder not in above and arms.isdisjoint(folder.parents):
            arms.add(folder)
            found.append(folder)
    return found


def command_line() -> str:
    """Return how this process was called, for the record."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
