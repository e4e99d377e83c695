"""What a rank records again and again: operations, steps, checksums. Import from :mod:`chaoskit.history`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    t_s: float
    slot: int  # -1: the arm as a whole


@dataclass(frozen=True, slots=True)
class Entered(Event):
    """The rank entered an operation. ``init`` (process group forming) is op ``init``.

    ``seq`` counts all operations of this rank; ``fingerprint`` covers op, shapes, dtypes;
    ``shape`` and ``dtype`` are the texts behind it; ``site`` is the user's file:line.
    """

    op: str
    group: str
    nth: int
    step: int
    seq: int
    fingerprint: int = 0
    site: str = ""
    shape: str = ""
    dtype: str = ""
    members: tuple[int, ...] = ()
    peer: int = -1  # of a send or recv: the rank at the other side; -1: none, or not known
    thread: int = 0  # of the script's threads, in order of their first operation; 0 is the main thread


@dataclass(frozen=True, slots=True)
class Completed(Event):
    """The rank saw the operation complete."""

    op: str
    group: str
    nth: int
    step: int
    seq: int


@dataclass(frozen=True, slots=True)
class OpFailed(Event):
    """The operation raised."""

    op: str
    group: str
    nth: int
    step: int
    seq: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Stepped(Event):
    """Optimizer step ``step`` (from 1) is done on this rank."""

    step: int


@dataclass(frozen=True, slots=True)
class Replicated(Event):
    """A checksum of the state that every rank has to hold alike (DDP parameters, DTensor ``Replicate``).

    Taken where replication has to hold: before a forward of step ``step`` + 1, and with ``final`` at the end.

    ``ordinal`` counts what is replicated in a rank (several models); compare equal ordinals and steps only.
    """

    step: int
    checksum: int
    final: bool = False
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """Recorder records that were overwritten or torn (``count``)."""

    count: int
    torn: int = 0


@dataclass(frozen=True, slots=True)
class LeftOut(Event):
    """A large history is judged without ``count`` operations of this rank (:mod:`chaoskit.judge.condensing`).

    All members of their groups entered them alike, and completed them. ``messages`` of them are sends and
    receives. From ``t_s`` on nothing is left out.
    """

    count: int
    messages: int = 0
