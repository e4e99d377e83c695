"""What is said of an arm: outcome, blame, verdict. Frozen values, no I/O.

Import them from :mod:`chaoskit.model`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

Backend = Literal["gloo", "nccl"]


class Outcome(enum.StrEnum):
    """What happened to the job."""

    COMPLETED = "completed"  # all ranks ended 0 and the result, where checkable, is right
    FAILED = "failed"  # all ranks ended by themselves or their guards, the job nonzero
    HUNG = "hung"  # a rank was alive without progress at the deadline
    OVERDUE = "overdue"  # alive *with* progress at the deadline
    CORRUPTED = "corrupted"  # a rank reported success with a wrong result
    MASKED = "masked"  # the job reported success though a rank did not finish its work
    NOT_INJECTED = "not_injected"  # the fault did not fire


class Status(enum.StrEnum):
    """The verdict of one arm."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"


class Result(enum.StrEnum):
    """The verdict of a scenario."""

    HELD = "held"
    NOT_HELD = "not_held"
    NOT_NEEDED = "not_needed"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"


class Kind(enum.StrEnum):
    """What a culprit did."""

    KILLED = "killed"  # ended by a signal that no guard and no launcher sent
    EXCEPTION = "exception"  # an uncaught exception of its own
    OUT_OF_MEMORY = "out_of_memory"
    EXITED = "exited"  # exit(n) with n != 0 and no exception seen
    LEFT_EARLY = "left_early"  # exit 0 before its work was done
    FROZEN = "frozen"  # stopped, or alive without moving outside a collective
    NEVER_ENTERED = "never_entered"  # moving, but missing in an operation the others wait in
    OTHER_COLLECTIVE = "other_collective"  # entered another operation than the others
    OTHER_SHAPE = "other_shape"
    OTHER_DTYPE = "other_dtype"
    LATE = "late"
    WRONG_RESULT = "wrong_result"
    DIVERGED = "diverged"  # state that is known to be replicated differs from the other ranks'
    CONFIGURATION = "configuration"
    DEADLOCK = "deadlock"  # ranks wait for each other, in a circle
    OTHER_GROUP = "other_group"  # the same operation, in another process group than the others
    UNREACHABLE = "unreachable"  # the network between ranks does not carry what a job needs
    TOO_SLOW = "too_slow"  # it carries less than was asked for, and the job goes on
    HUNG_IN_TEARDOWN = "hung_in_teardown"
    ABORT_AT_TEARDOWN = "abort_at_teardown"
    UNKNOWN = "unknown"


class Sureness(enum.StrEnum):
    """How sure it is that the culprits are the right ones."""

    CERTAIN = "certain"  # recorded by the ranks themselves, or seen of their processes
    LIKELY = "likely"  # it fits all that is known, but records are missing or a victim may end like that too
    AMBIGUOUS = "ambiguous"  # one of those named; the evidence does not separate them


@dataclass(frozen=True, slots=True, order=True)
class Culprit:
    """Who did it: ``rank 1``, ``host hostB``, ``nic hostB docker0`` or ``link hostA–hostB``.

    A link is named with its hosts in order of the alphabet (:func:`link`)."""

    kind: Literal["rank", "host", "nic", "link"]
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


def link(one: str, other: str) -> Culprit:
    """Return the link between two hosts as a culprit."""
    return Culprit("link", "–".join(sorted((one, other))))


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a process group: the ``nth`` (from 1) of its kind there."""

    op: str
    group: str
    nth: int


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How one rank ended; ``exit_code`` is negative for a signal, None when the supervisor ended it."""

    rank: int
    exit_code: int | None
    ended_s: float | None  # seconds from the injection (from the start where none fired)
    last: Operation | None = None  # the last one it entered


@dataclass(frozen=True, slots=True)
class Blame:
    """Who did it, from a history without plan and injections."""

    culprits: tuple[Culprit, ...] = ()
    kind: Kind | None = None
    reason: str = ""
    where: str = ""  # file:line of the user's code
    ambiguous: bool = False
    at: Operation | None = None  # the operation in which the culprit parted from the others
    likely: bool = False  # the evidence fits, and something else could look the same
    evidence: tuple[str, ...] = ()  # what it rests on, a sentence each, the strongest first

    @property
    def sureness(self) -> Sureness | None:
        """How sure it is; None where nobody is named."""
        if not self.culprits:
            return None
        if self.ambiguous:
            return Sureness.AMBIGUOUS
        return Sureness.LIKELY if self.likely else Sureness.CERTAIN


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one arm."""

    scenario: str
    arm: str
    repeat: int
    attempt: int
    backend: Backend
    profile: str
    status: Status
    reason: str
    outcome: Outcome | None = None
    kind: Kind | None = None
    bites: bool | None = None  # for a control arm: it breaks the hardened contract
    bound_s: float | None = None
    production_bound_s: float | None = None
    latency_s: float | None = None
    culprits: tuple[Culprit, ...] = ()
    victims: tuple[int, ...] = ()
    ambiguous: bool = False
    where: str = ""
    ranks: tuple[RankEnd, ...] = ()
    not_applicable: tuple[str, ...] = ()  # guards and variables without effect on the backend
    rerun: str = ""
    notes: tuple[str, ...] = ()  # worth knowing, and no reason for any verdict
    stragglers: tuple[Culprit, ...] = ()  # ranks that the others waited for, though all went well
    ended_by: tuple[str, ...] = ()  # guards, a launcher's policies, timeouts; in order of time
    cause: str = ""  # what the culprit did and what it did to the others, in one sentence
    at: Operation | None = None  # the operation in which the culprit parted from the others
    sureness: Sureness | None = None  # of the culprits; None where nobody is named
    evidence: tuple[str, ...] = ()  # what the blame rests on, the strongest first


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """What is said of a scenario on one backend, over all its arms and repeats."""

    name: str
    backend: Backend
    result: Result
    reason: str
    verdicts: tuple[Verdict, ...] = ()
