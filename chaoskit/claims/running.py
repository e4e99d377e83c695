"""Runs claims in one run of the engine and says what came of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaoskit import rundir
from chaoskit.claims import answering, reading
from chaoskit.claims.arms import Bench, benches
from chaoskit.claims.values import REPEATS_MIN, Claim, ClaimsReport, Surroundings
from chaoskit.model import Backend, Verdict
from chaoskit.request import ArmId, Observer, RunRequest, RunResult
from chaoskit.scenario.checks import CONTROL

_AGAIN = ("chaoskit", "claims", "--repeat", "1")
Engine = Callable[[RunRequest, Observer | None], RunResult]


@dataclass(frozen=True, slots=True)
class ClaimsRequest:
    """Which claims are run, on which backends, how often."""

    claims: tuple[Claim, ...]
    backends: tuple[Backend, ...] = ("gloo",)
    repeats: int = REPEATS_MIN
    seed: int | None = None
    jobs: int | None = None
    runs_dir: Path = Path("runs")
    command: str = ""
    not_run: tuple[tuple[Backend, str], ...] = ()  # backends that were not asked for, as they are not there


def run(request: ClaimsRequest, engine: Engine, observer: Observer | None = None) -> ClaimsReport:
    """Run what is asked and return the answers. Raises as chaoskit.engine.run does.

    Durations are not scaled: what is stated was waited for.
    """
    chosen = benches(request.claims, request.backends)
    asked = RunRequest(
        scenarios=tuple(bench.scenario for bench in chosen),
        profiles=tuple(profile for bench in chosen for profile in bench.profiles),
        again={arm: again for bench in chosen for arm, again in _again(bench)},
        jobs=request.jobs,
        seed=request.seed,
        repeat=request.repeats,
        time_scale=1.0,
        runs_dir=request.runs_dir,
        command=request.command,
    )
    load = os.getloadavg()[0]
    return report(request, chosen, engine(asked, observer), load)


def _again(bench: Bench) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """How each arm is run again: with its claim, once; the arm without a setting with any that has one.

    The first claim comes along where bounds or contracts are reckoned by its arm.
    """
    profiles = {profile.name: profile for profile in bench.profiles}
    decisive = {arm.name: (profiles[arm.profile].timeouts, arm.expect) for arm in bench.scenario.arms}
    lead = bench.members[0][0]
    of_arm = {CONTROL: next((c for c, _ in bench.members if c.setting), lead)}
    of_arm |= {claim.name: claim for claim, _ in bench.members}
    for arm, given in decisive.items():
        follows = arm == CONTROL or given != decisive[lead.name]
        needed = dict.fromkeys(map(reading.named, [lead, of_arm[arm]] if follows else [of_arm[arm]]))
        yield (bench.scenario.name, arm), (*_AGAIN, *needed)


def report(request: ClaimsRequest, chosen: Sequence[Bench], ran: RunResult, load: float) -> ClaimsReport:
    """Return the answers that the verdicts of a run give, also one that was interrupted."""
    files = answering.Files(partial(_folder, ran.run_dir), _printed)
    findings = answering.find(request.claims, chosen, ran.verdicts, files, request.backends)
    kernel = platform.release().partition("-")[0]
    cores = len(os.sched_getaffinity(0))
    surroundings = Surroundings(
        ran.torch, platform.python_version(), kernel, cores, round(load, 1), rundir.version("chaoskit")
    )
    return ClaimsReport(
        surroundings,
        findings,
        request.repeats,
        ran.seed,
        ran.run_dir,
        ran.wall_s,
        ran.interrupted,
        request.not_run,
    )


def _folder(run_dir: Path, verdict: Verdict) -> Path:
    key = ArmId(verdict.scenario, verdict.arm, verdict.backend, verdict.repeat, verdict.attempt)
    return rundir.arm_dir(run_dir, key)


def _printed(folder: Path, text: str) -> bool:
    """Return whether some rank printed ``text``; what cannot be read was not seen."""
    for log in folder.glob("rank*/std*.log"):
        with suppress(OSError):
            if text.encode() in log.read_bytes():
                return True
    return False
