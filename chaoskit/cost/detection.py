"""How long a job goes on after a fault, under each treatment: what a price buys.

A few scenarios of the library run once under every treatment, in one engine run, side by side. Durations are
shortened so that nobody waits for half an hour. Each arm runs at two different shortenings: what grows with
them is a timeout and is extrapolated to its full length; what does not (a peer's closed socket) is left as it
was measured. Decides nothing about what is worth its price.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaoskit import engine, guards, rundir
from chaoskit.cost.sentence import FAULTS
from chaoskit.cost.values import Detection, Ending, Treatment
from chaoskit.judge.ended_by import LOST_PEER
from chaoskit.model import (
    Arm,
    Backend,
    Expectation,
    Guard,
    Outcome,
    Profile,
    Scenario,
    Span,
    Status,
    Verdict,
)
from chaoskit.request import ArmId, Observer, RunRequest, RunResult, Silent
from chaoskit.scenario import HARDENED, select
from chaoskit.schedule import LIVE_MAX

SCENARIOS: Final = tuple(FAULTS)
TORCH_TIMEOUT_S: Final[dict[Backend, float]] = {"gloo": 1800.0, "nccl": 600.0}
"""torch's own timeouts (default_pg_timeout and default_pg_nccl_timeout in torch/distributed/constants.py).
They cannot be shortened from outside, so a treatment that sets none gets them written out as a guard."""
SHORTENED_S: Final = (3.0, 9.0)
"""What the collective timeout becomes in the two arms: the automatic time scale's, and three times that."""
GROWN_S: Final = 0.75
"""Of less growth between the two it cannot be said that it is any: arms share their cores with others ..."""
GROWN_SHARE: Final = 1 / 3
"""... nor where what grows is less than this of the shorter time: a timeout that ends a job is most of it."""
_TIMES, _PLUS_S = 2.0, 4.0
"""How many timeouts and seconds more an arm has, until it has not ended by itself."""
_NCCL_PLUS_S = 75.0
"""The watchdog of torch sleeps 60 s by default before it ends the rank."""
START_S: Final = 2.0
"""About what starting the ranks of an arm takes of a core."""
_RECKONING = "reckoning"
_COLLECTIVE = "collective timeout"
"""How a verdict calls it where the collective timeout ended the first rank."""

Engine = Callable[[RunRequest, Observer | None], RunResult]


@dataclass(frozen=True, slots=True)
class _Shortened:
    """A treatment at one shortening, as an arm that scenarios can have."""

    treatment: Treatment
    arm: str
    profile: Profile
    time_scale: float
    limit_s: float
    timeout_s: float  # the collective timeout, at its full length


def detect(
    treatments: Sequence[Treatment],
    backend: Backend,
    runs_dir: Path,
    seed: int,
    observer: Observer | None = None,
    run: Engine = engine.run,
    command: str = "",
) -> tuple[tuple[Detection, ...], bool]:
    """Return how long the job went on in each scenario, and whether that was interrupted.

    What the timed program does differently (Treatment.toggle) has no part in it. Main thread only; raises as
    the engine does.
    """
    arms = [one for number, t in enumerate(treatments) for one in _shortened(t, number, backend)]
    scenarios = tuple(_with(scenario, arms) for scenario in select(list(SCENARIOS)))
    profiles = tuple(one.profile for one in arms)
    request = RunRequest(
        scenarios,
        profiles=(*profiles, _reckoning()),
        arms=tuple(one.arm for one in arms),
        backend=backend,
        seed=seed,
        time_scale=1.0,  # the profiles are shortened already, each as it needs
        runs_dir=runs_dir,
        command=command,
    )
    result = run(request, observer or Silent())
    return tuple(_detections(arms, result, backend)), result.interrupted


def planned(treatments: Sequence[Treatment], backend: Backend) -> tuple[int, float]:
    """Return how many arms that is, and about how long they take: they start in turns, and
    wait side by side."""
    limits = [one.limit_s for n, t in enumerate(treatments) for one in _shortened(t, n, backend)]
    arms = len(limits) * len(SCENARIOS)
    cores = len(os.sched_getaffinity(0))
    return arms, max(limits) * math.ceil(arms / LIVE_MAX) + arms * START_S / cores


def treatment_of(arm: str) -> int:
    """Return the place of the treatment that an arm named ``arm`` runs under."""
    return int(arm.removeprefix("t").partition("-")[0]) - 1


# ---------------------------------------------------------------- arms


def _shortened(treatment: Treatment, number: int, backend: Backend) -> list[_Shortened]:
    """The arms of one treatment: two, or one where nothing has to be shortened."""
    profile = _with_timeouts(treatment.profile, backend)
    timeout_s = _timeout_s(profile)
    scales = dict.fromkeys(min(1.0, short_s / timeout_s) for short_s in SHORTENED_S)
    plus_s = _PLUS_S if backend == "gloo" else _NCCL_PLUS_S
    found: list[_Shortened] = []
    for scale in scales:
        name = f"t{number + 1}-{len(found) + 1}"
        scaled = dataclasses.replace(profile.scaled(scale), name=f"{profile.name} ({name})", file="")
        limit_s = timeout_s * scale * _TIMES + plus_s
        found.append(_Shortened(treatment, name, scaled, scale, limit_s, timeout_s))
    return found


def _timeout_s(profile: Profile) -> float:
    """The collective timeout under ``profile``: that of the guard, or of the one that copies the articles."""
    if profile.timeouts.collective_s is not None:
        return profile.timeouts.collective_s
    value = getattr(profile.guard("folklore_init"), "timeout_s", None)
    assert isinstance(value, float)
    return value


def _with_timeouts(profile: Profile, backend: Backend) -> Profile:
    if profile.guard("timeouts") is not None or profile.guard("folklore_init") is not None:
        return profile
    return dataclasses.replace(profile, guards=(_timeouts(TORCH_TIMEOUT_S[backend]), *profile.guards))


def _timeouts(seconds: float) -> Guard:
    cls = guards.REGISTRY.get("timeouts")
    assert cls is not None
    return cls(init_s=seconds, collective_s=seconds, store_s=seconds)  # type: ignore[call-arg]


def _reckoning() -> Profile:
    """By its timeouts the durations of the faults are reckoned: longer than any arm has."""
    return Profile(_RECKONING, guards=(_timeouts(max(SHORTENED_S)),))


def _with(scenario: Scenario, arms: Iterable[_Shortened]) -> Scenario:
    """The scenario with these arms in the place of its own. The last is not run: its timeouts are what
    durations of faults follow."""
    fails = tuple((backend, Outcome.FAILED) for backend in scenario.backends)
    own = [Arm(one.arm, one.profile.name, Expectation(fails, within=Span(one.limit_s))) for one in arms]
    reckoned = Arm(HARDENED, _RECKONING, Expectation(fails, within=Span(_PLUS_S)))
    return dataclasses.replace(scenario, arms=(*own, reckoned), known=(), file="")


# ---------------------------------------------------------------- what came of it


def _detections(arms: list[_Shortened], result: RunResult, backend: Backend) -> Iterable[Detection]:
    last: dict[tuple[str, str], Verdict] = {}
    for verdict in result.verdicts:
        last[verdict.scenario, verdict.arm] = verdict
    treatments = dict.fromkeys(one.treatment.name for one in arms)
    for scenario in SCENARIOS:
        for name in treatments:
            own = [one for one in arms if one.treatment.name == name]
            seen = [(one, last[scenario, one.arm]) for one in own if (scenario, one.arm) in last]
            if seen:
                yield _detection(scenario, seen, result.run_dir, backend)


def _detection(
    scenario: str, seen: list[tuple[_Shortened, Verdict]], run_dir: Path, backend: Backend
) -> Detection:
    first, verdict = seen[0]
    endings = tuple(_ending(one, found, run_dir, backend) for one, found in seen)
    points = [(ending.time_scale, ending.measured_s) for ending in endings]
    waited = any(found.ended_by != (LOST_PEER,) for _, found in seen)
    by_timeout = all(e.measured_s is not None and e.ended_by[:1] == (_COLLECTIVE,) for e in endings)
    return Detection(
        first.treatment.name,
        scenario,
        points[0][1],
        production_s(points, first.timeout_s if by_timeout else 0.0) if waited else points[0][1],
        first.limit_s,
        first.time_scale,
        _outcome(verdict),
        endings[0].run,
        endings,
        first.timeout_s if by_timeout else None,
    )


def _ending(one: _Shortened, verdict: Verdict, run_dir: Path, backend: Backend) -> Ending:
    key = ArmId(verdict.scenario, one.arm, backend, verdict.repeat, verdict.attempt)
    return Ending(one.time_scale, _ended_s(verdict), verdict.ended_by, str(rundir.arm_dir(run_dir, key)))


def _ended_s(verdict: Verdict) -> float | None:
    """The seconds from the fault to the end of the last rank; None where the job did not end by itself."""
    return verdict.latency_s if verdict.outcome is Outcome.FAILED else None


def _outcome(verdict: Verdict) -> str:
    if verdict.outcome is not None:
        return str(verdict.outcome)
    said = "skipped" if verdict.status is Status.SKIPPED else "inconclusive"
    return f"{said}: {verdict.reason}" if verdict.reason else said


def production_s(points: Sequence[tuple[float, float | None]], timeout_s: float = 0.0) -> float | None:
    """Return the seconds at full length, from pairs of a shortening and the seconds it took; None where the
    job did not end by itself in one of them.

    The line through the two: what grows with the shortening is a duration of the profile. Growth that may as
    well be chance (:data:`GROWN_S`, :data:`GROWN_SHARE`) is none, and the time is left as it was measured.
    A timeout that is known to have ended the job (of ``timeout_s`` at full length) is in the seconds with all
    of its length, however a busy machine has stretched the shorter of the two times.
    """
    (scale, took_s), (last_scale, last_s) = points[0], points[-1]
    if took_s is None or last_s is None:
        return None
    slope = (last_s - took_s) / (last_scale - scale) if last_scale != scale else 0.0
    if last_s - took_s < GROWN_S or slope * scale < GROWN_SHARE * took_s:
        slope = 0.0
    return took_s + max(slope, timeout_s) * (1.0 - scale)
