"""What is asked of the engine, what it gives back, and who may watch. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from chaoskit.model import Backend, GpuSharing, Launcher, Profile, Scenario, ScenarioResult, Verdict, Workload


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run of some scenarios. None means: as the scenario says, or chosen by the engine.

    ``profile`` replaces the profile of every arm but the control. ``profiles`` are what arms may name beside
    the built-in ones and files; a scenario that is like no file has no ``file``. Both are written down in the
    folder of the run, so that its arms can be run again; ``again`` says for arms (a scenario and an arm of
    it) that a command does that instead, which takes ``--backend`` and ``--seed`` besides. ``arms`` keeps
    only the arms named; a hardened arm still needs its control to be judged held. ``timeout_s`` bounds each.
    ``require`` names capabilities whose absence makes a skip inconclusive. ``time_scale`` None is
    *auto*. ``command`` is how the user asked, for the record.
    """

    scenarios: tuple[Scenario, ...]
    profile: Profile | None = None
    profiles: tuple[Profile, ...] = ()
    again: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    arms: tuple[str, ...] = ()
    backend: Backend | None = None
    ranks: int | None = None
    jobs: int | None = None
    seed: int | None = None
    repeat: int = 1
    timeout_s: float | None = None
    time_scale: float | None = None
    require: tuple[str, ...] = ()
    runs_dir: Path = Path("runs")
    stop_at_first: bool = False
    command: str = ""
    program: Workload | None = None  # the user's own, in the place of each scenario's workload
    launcher: Launcher | None = None  # None: a command brings its own, all else is forked
    stall_s: float | None = None  # time without progress that a user's program may take
    native: bool = False  # a rank that hangs is read with its native frames, too
    gpu_sharing: GpuSharing | None = None  # how ranks share GPUs where there are too few


WATCH_STALL_S = 300.0
"""How long a watched program may go without any progress, unless the user says so."""
WATCH = "watch"
"""The name of the scenario, and of its only arm, that stands for a program watched as it is."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A program of the user's to be watched as it is, without any fault.

    ``stall_s`` limits the time without progress, ``timeout_s`` the whole run. ``profile`` None: torch's
    defaults. ``backend`` is what the program is thought to use, for capabilities and reports only.
    """

    program: Workload
    ranks: int = 4
    launcher: Launcher | None = None
    profile: Profile | None = None
    stall_s: float = WATCH_STALL_S
    timeout_s: float | None = None
    backend: Backend = "gloo"
    seed: int | None = None
    runs_dir: Path = Path("runs")
    command: str = ""
    native: bool = False


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of it. ``run_dir`` holds run.json and a folder per scenario, arm and repeat."""

    run_dir: Path
    seed: int
    torch: str
    scenarios: tuple[ScenarioResult, ...]
    wall_s: float
    interrupted: bool = False

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(v for s in self.scenarios for v in s.verdicts)


@dataclass(frozen=True, slots=True)
class ArmId:
    """Which arm is meant, in what an observer is told."""

    scenario: str
    arm: str
    backend: Backend
    repeat: int
    attempt: int


class Observer(Protocol):
    """Told of progress as it happens, always from the engine's own thread of control."""

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None: ...
    def arm_started(self, arm: ArmId, limit_s: float) -> None: ...
    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None: ...
    def scenario_ended(self, result: ScenarioResult) -> None: ...


@runtime_checkable
class HearsOfWaits(Protocol):
    """An observer that is also told, from the arm's own thread, of ranks that wait for one that is no hang.

    ``said`` is who waits for whom since ``since_s`` (time.monotonic), "" once that is over.
    """

    def arm_waits(self, arm: ArmId, said: str, since_s: float) -> None: ...


class Silent:
    """An observer that does not care."""

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None: ...
    def arm_started(self, arm: ArmId, limit_s: float) -> None: ...
    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None: ...
    def scenario_ended(self, result: ScenarioResult) -> None: ...
