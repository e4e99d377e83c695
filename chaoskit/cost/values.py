"""What is compared, and what came of it. Frozen values, no I/O.

A *treatment* is one side of a comparison: a profile (guards and variables), and what the timed program does
differently. A *case* is what is timed. A *comparison* is one treatment against another in one case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chaoskit.model import Backend, Profile

Toggle = Literal["", "serialised-waits", "monitored-barrier"]
"""What the timed program itself does differently: it waits after every collective, instead of when it needs
the result; it calls monitored_barrier every N steps."""
Scope = Literal["ranks", "process"]
"""``ranks``: both sides are timed in the same ranks, in process groups of their own; ``process``: between two
sets of ranks, of which one rests while the other runs."""


LAUNCHES_TOLD = 3
"""Two starts of the same ranks differ by chance: of fewer, no difference between settings is told."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """One side of a comparison. ``name`` is what the user typed, ``says`` how a sentence calls it."""

    name: str
    says: str
    profile: Profile
    toggle: Toggle = ""
    every: int = 0  # steps between two monitored barriers
    backends: tuple[Backend, ...] = ("gloo", "nccl")


@dataclass(frozen=True, slots=True)
class Case:
    """What is timed: one collective of ``nbytes`` (of the tensor that is reduced, or of all that is gathered
    or scattered, as nccl-tests counts them), a step of the DDP model, or a step of the user's program."""

    kind: Literal["collective", "ddp", "program"]
    name: str  # "all_reduce 1 MiB", "ddp 8 × 1 MiB", "train.py"
    op: str = ""
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Time per step (per call) of the treatment over that of what it is compared with.

    ``low`` and ``high`` are the ends of the 95 % interval. ``plain_s`` is the mean of the seconds per step,
    ``with_s`` is ``ratio`` times that. ``rounds`` pairs of blocks, with ``steps`` steps on either side, were
    timed in ``launches`` starts of ranks.
    """

    ratio: float
    low: float
    high: float
    plain_s: float
    with_s: float
    rounds: int
    launches: int
    steps: int = 0

    @property
    def is_difference(self) -> bool:
        """True where the interval does not hold 1, and enough starts were timed to say so."""
        return self.launches >= LAUNCHES_TOLD and not self.low <= 1.0 <= self.high

    @property
    def width(self) -> float:
        """Half the width of the interval, as a share of the plain time."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of one. ``estimate`` is None where ``problem`` says why there is none.

    ``proofs`` is what each side was seen to have in effect before it was timed, plain side first.
    """

    treatment: str
    says: str
    against: str
    case: Case
    scope: Scope
    estimate: Estimate | None
    problem: str = ""
    proofs: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    bus_bytes_s: tuple[float, float] | None = None  # bus bandwidth as nccl-tests defines it: plain, with


@dataclass(frozen=True, slots=True)
class Ending:
    """One arm of a detection: the seconds from the fault to the end of the job at one shortening (None: it
    did not end by itself), what ended it, and the folder of the arm."""

    time_scale: float
    measured_s: float | None
    ended_by: tuple[str, ...] = ()
    run: str = ""


@dataclass(frozen=True, slots=True)
class Detection:
    """How long a job under a treatment went on after a fault, in one scenario.

    ``measured_s`` at ``time_scale``; ``production_s`` is what it comes to without the shortening (an
    extrapolation where a timeout ended it); None: the job did not end by itself, within ``limit_s``.
    ``endings`` are what it rests on, the shortest first. ``timeout_s``: the full length of the timeout that
    ended the job in all of them; None where another thing did, or one that is not known.
    """

    treatment: str
    scenario: str
    measured_s: float | None
    production_s: float | None
    limit_s: float
    time_scale: float
    outcome: str = ""
    run: str = ""  # the folder of the arm
    endings: tuple[Ending, ...] = ()
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CostReport:
    """All that one `chaoskit cost` measured."""

    backend: Backend
    ranks: int
    torch: str
    machine: str
    seed: int
    comparisons: tuple[Comparison, ...]
    detections: tuple[Detection, ...] = ()
    wall_s: float = 0.0
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    run_dir: str = ""
    rerun: str = ""  # the command that measures this again ...
    folder: str = ""  # ... where it was typed; '': not known, or not to be told
