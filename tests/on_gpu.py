"""Runs on a machine with a GPU all that needs one, and puts what came of it into one folder (`make nccl`).

    python tests/on_gpu.py [FOLDER]

One step after the other: the tests marked nccl, the library on nccl (with both ways of sharing a GPU where
there are too few), what blocking wait costs, and what is said of NCCL's settings. A step that fails ends no
other.
FOLDER/report.md says what was run on which machine and leads to everything; report.json holds the same.

Exits 0 where every step ended with 0 or 1 (1 is an answer: something is not held), 2 where one could say
nothing, 3 where one broke, and 2 without a GPU, with the reason, having run nothing.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from chaoskit import capabilities, rundir
from chaoskit.gpu import cuda_build, nvml
from chaoskit.gpu.sharing import MULTI_RANK_SINCE

NOTHING_SAID: Final = 2
BROKEN: Final = 3
ANSWERS: Final = (0, 1)
RANKS: Final = 4


@dataclass(frozen=True)
class Step:
    """One command; ``files`` are what it writes into the folder."""

    name: str
    says: str
    command: tuple[str, ...]
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done:
    step: Step
    code: int
    seconds: float

    @property
    def meaning(self) -> str:
        if self.step.name == "tests":
            return {0: "passed", 1: "failed"}.get(self.code, f"broke (exit {self.code})")
        known = {
            0: "all held",
            1: "something is not held, or over a limit",
            NOTHING_SAID: "nothing could be said",
        }
        return known.get(self.code, f"broke (exit {self.code})")


@dataclass(frozen=True)
class Machine:
    """What the figures are of."""

    gpus: tuple[str, ...]
    driver: str
    torch: str
    nccl: str
    kernel: str = field(default_factory=platform.release)


def steps(folder: Path, gpus: int, nccl: tuple[int, ...] | None) -> tuple[Step, ...]:
    """Return what is to be run."""
    chaoskit = (sys.executable, "-m", "chaoskit")
    runs = ("--runs-dir", str(folder / "runs"))

    def library(name: str, says: str, *more: str) -> Step:
        files = (f"{name}.html", f"{name}.md", f"{name}.xml")
        outputs = [word for option, file in zip(("--html", "--markdown", "--junit"), files, strict=True)
                   for word in (option, str(folder / file))]  # fmt: skip
        command = (*chaoskit, "run", "all", "--backend", "nccl", "--require", "nccl", *more, *runs, *outputs)
        return Step(name, says, command, files)

    found = [
        Step("tests", "the tests marked nccl",
             (sys.executable, "-m", "pytest", "-m", "nccl", "--timeout", "600",
              f"--junitxml={folder / 'tests.xml'}"), ("tests.xml",)),
    ]  # fmt: skip
    if gpus >= RANKS:
        found.append(library("library", "the library, a GPU for each rank"))
    else:
        found.append(
            library(
                "library-host-ids", "the library, ranks as hosts of their own", "--gpu-sharing", "host-ids"
            )
        )
        if nccl is not None and nccl[:2] >= MULTI_RANK_SINCE:
            says = "the library, ranks that share a GPU as NCCL allows it"
            found.append(library("library-multi-rank", says, "--gpu-sharing", "multi-rank"))
    cost = tuple(f"cost.{ending}" for ending in ("html", "md", "json"))
    outputs = (
        "--html",
        str(folder / cost[0]),
        "--markdown",
        str(folder / cost[1]),
        "--json",
        str(folder / cost[2]),
    )
    what = ("blocking-wait", "async-error-handling:1", "flight-recorder", "recommended", "strict")
    found += [
        Step("cost", "what blocking wait and the profiles cost",
             (*chaoskit, "cost", *what, "--backend", "nccl", "--budget", "60s", *runs, *outputs), cost),
        Step("claims", "what NCCL's settings really do here",
             (*chaoskit, "claims", "--backend", "nccl", *runs, "--markdown", str(folder / "claims.md"),
              "--json", str(folder / "claims.json")), ("claims.md", "claims.json")),
    ]  # fmt: skip
    return tuple(found)


def run(step: Step, folder: Path) -> Done:
    """Run one step with its output in FOLDER/<name>.log."""
    start = time.monotonic()
    with (folder / f"{step.name}.log").open("wb") as log:
        code = subprocess.run(
            step.command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        ).returncode
    return Done(step, code, round(time.monotonic() - start, 1))


def machine() -> Machine:
    shown = tuple(f"{gpu.name}, {gpu.total_mib} MiB" for gpu in capabilities.gpus())
    version = cuda_build.nccl_version()
    return Machine(
        shown, nvml.driver(), rundir.version("torch"), ".".join(map(str, version or ())) or "unknown"
    )


def report(here: Machine, done: list[Done], folder: Path) -> str:
    """Return the page; a file is linked where it was really written."""
    lines = [
        "# chaoskit on NCCL", "",
        f"{len(here.gpus)} × {here.gpus[0]}; driver {here.driver}; torch {here.torch}; NCCL {here.nccl}; "
        f"Linux {here.kernel}", "",
        "| step | what | result | time | files |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for one in done:
        files = [name for name in (*one.step.files, f"{one.step.name}.log") if (folder / name).exists()]
        links = ", ".join(f"[{name}]({name})" for name in files)
        lines.append(f"| {one.step.name} | {one.step.says} | {one.meaning} | {one.seconds:g} s | {links} |")
    return "\n".join(lines) + "\n"


def exit_code(done: list[Done]) -> int:
    codes = [one.code for one in done]
    if any(code not in (*ANSWERS, NOTHING_SAID) for code in codes):
        return BROKEN
    return NOTHING_SAID if NOTHING_SAID in codes else 0


def write(here: Machine, done: list[Done], folder: Path) -> None:
    """Write the report as it stands; after every step, so that an interrupted run has one."""
    (folder / "report.md").write_text(report(here, done, folder), encoding="utf-8")
    found = {"machine": asdict(here), "steps": [{**asdict(one), "meaning": one.meaning} for one in done]}
    (folder / "report.json").write_text(json.dumps(found, indent=2), encoding="utf-8")


def main(arguments: list[str], run_one: Callable[[Step, Path], Done] = run) -> int:
    nccl = capabilities.find("nccl")
    if not nccl.available:
        print(
            f"nothing is run: nccl cannot be had here: {nccl.detail} (to have it: {nccl.remedy})",
            file=sys.stderr,
        )
        return NOTHING_SAID
    folder = Path(arguments[0] if arguments else f"runs/nccl-{time.strftime('%Y%m%d-%H%M%S')}").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    here, done = machine(), list[Done]()
    for step in steps(folder, len(here.gpus), cuda_build.nccl_version()):
        print(f"{step.name}: {step.says} ...", flush=True)
        done.append(run_one(step, folder))
        print(f"{step.name}: {done[-1].meaning}, {done[-1].seconds:g} s", flush=True)
        write(here, done, folder)
    print(f"report: {folder / 'report.md'}")
    return exit_code(done)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
