"""The words of the truth of advice: claims, trials, and what was found. Frozen values, no I/O."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from chaoskit.model import Backend, Expectation, Guard, Outcome, Scenario, Timeouts

REPEATS_MIN = 3
"""Fewer runs than this are no answer."""


class Answer(enum.StrEnum):
    """What a claim turned out to be, on one backend of one torch."""

    TRUE = "true"  # it comes as told, and does not without the setting (where there is one)
    PARTLY = "true in part"  # in some of the trials
    NO_EFFECT = "no effect"  # with and without the setting the same was seen
    NOT_NEEDED = "not needed"  # it comes as told, and without the setting too, though in another way
    NOT_SO = "not so"  # something else was seen than what is told
    HARMLESS = "harmless"  # a healthy job completes with it, too
    HARMFUL = "harmful"  # a healthy job completes without it, and not with it
    UNSTEADY = "unsteady"  # the runs differ
    UNCLEAR = "inconclusive"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Setting:
    """Guards and variables that are added to a job."""

    guards: tuple[Guard, ...] = ()
    env: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.guards or self.env)


@dataclass(frozen=True, slots=True)
class Trial:
    """One scenario on which a claim is tried; ``expect`` is what would be seen if the claim were true.

    ``others``: it is about the ranks that no fault was done to; one that was stopped stays whatever they do.
    ``prints`` is a text that some rank would print. ``watch_s`` is how long is waited to see what comes;
    ``init_s`` and ``collective_s`` are the timeouts that the script sets in every arm, None: torch's default.
    """

    scenario: Scenario
    expect: Expectation
    init_s: float | None = None
    collective_s: float | None = None
    watch_s: float | None = None
    others: bool = False
    prints: str = ""

    @property
    def completes(self) -> bool:
        """Is the claim that the job completes?"""
        return all(outcome is Outcome.COMPLETED for _, outcome in self.expect.outcome)

    @property
    def watched_s(self) -> float | None:
        """How long is waited for what comes."""
        return self.watch_s if self.watch_s is not None else self.bound_s

    @property
    def bound_s(self) -> float | None:
        """The seconds within which it would come, were the claim true."""
        given = Timeouts(self.init_s, self.collective_s, None)
        return None if self.expect.within is None else self.expect.within.seconds(given)

    @property
    def timeouts(self) -> str:
        """How the timeouts are said: ``T = 3 s``."""
        given = {f"{value:g} s" for value in (self.init_s, self.collective_s) if value is not None}
        return f"T = {', '.join(sorted(given))}" if given else ""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is told. Without a ``setting`` it is about what torch does by itself."""

    name: str
    told: str
    source: tuple[str, ...]
    trials: tuple[Trial, ...]
    setting: Setting = Setting()
    both: Setting = Setting()
    meant_for: tuple[Backend, ...] = ("gloo", "nccl")
    file: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of an arm showed. ``kept`` None: nothing can be said, for the reason in ``unclear``.

    ``outcome``, ``latency_s`` and ``exits`` are those of the ranks that the trial is about.
    """

    outcome: Outcome | None
    latency_s: float | None
    exits: tuple[tuple[int, int | None], ...]
    culprits: tuple[str, ...]
    kept: bool | None
    printed: bool  # what the trial looks for in the ranks' output; True where it looks for nothing
    unclear: str
    folder: Path


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """What came of a trial: the runs without the setting (none where there is no setting), those with it."""

    scenario: str
    timeouts: str
    timeout_s: float | None
    healthy: bool
    answer: Answer
    says: str
    watched_s: float | None
    others: bool
    without: tuple[Run, ...]
    with_it: tuple[Run, ...]

    @property
    def came(self) -> bool:
        """Did that come which is told, in every run with the setting?"""
        return bool(self.with_it) and all(run.kept for run in self.with_it)


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """What came of a claim on one backend."""

    claim: Claim
    backend: Backend
    answer: Answer
    says: str
    trials: tuple[TrialFinding, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """On what the claims were run."""

    torch: str
    python: str
    kernel: str
    cores: int
    load: float  # of the last minute, when the run began
    chaoskit: str


@dataclass(frozen=True, slots=True)
class ClaimsReport:
    """All that was found in one run."""

    surroundings: Surroundings
    findings: tuple[ClaimFinding, ...]
    repeats: int
    seed: int
    run_dir: Path
    wall_s: float
    interrupted: bool = False
    not_run: tuple[tuple[Backend, str], ...] = ()  # backends that are not to be had here, and why
