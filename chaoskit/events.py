"""The events of an arm: what each source says, as frozen values. Import them from :mod:`chaoskit.history`.

An event is a frozen dataclass with its time ``t_s`` (CLOCK_MONOTONIC seconds, one machine) and
the ``slot`` of the process it speaks of (its order of starting, which exists even where the
process claims a wrong RANK). Who wrote it is the event's kind: ranks write what they do, the warden
(parent of the ranks) or a rank's keeper writes deaths and signals, the supervisor writes deadlines and
samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chaoskit.frequent_events import Completed as Completed
from chaoskit.frequent_events import Entered as Entered
from chaoskit.frequent_events import Event as Event
from chaoskit.frequent_events import LeftOut as LeftOut
from chaoskit.frequent_events import Lost as Lost
from chaoskit.frequent_events import OpFailed as OpFailed
from chaoskit.frequent_events import Replicated as Replicated
from chaoskit.frequent_events import Stepped as Stepped

# ---------------------------------------------------------------- written by the ranks


@dataclass(frozen=True, slots=True)
class Identity(Event):
    """A rank says who it believes it is, before it does anything else. -1: not set or no number.

    ``master`` is MASTER_ADDR:MASTER_PORT as given to it; ``problems`` are what it can see of its own
    settings to be wrong (a network interface that its host does not have); ``interfaces`` are those that its
    backend will use, as far as this host's files tell.
    """

    rank: int
    local_rank: int
    world_size: int
    host: str
    pid: int
    launcher: str
    torch: str
    master: str = ""
    problems: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardArmed(Event):
    """A guard is in effect; ``effective`` are its settings as read back (``key=value`` texts)."""

    guard: str
    effective: tuple[str, ...] = ()
    applicable: bool = True


@dataclass(frozen=True, slots=True)
class Injected(Event):
    """Fault number ``index`` of the plan fires now. Hidden from blame.

    For phase *during*, ``submitted`` says that the target had handed the operation to the backend.
    """

    index: int
    fault: str
    op: str = ""
    group: str = ""
    nth: int = 0
    phase: str = ""
    submitted: bool = False


@dataclass(frozen=True, slots=True)
class Held(Event):
    """A peer waits at its entry of the operation until the fault has fired (chaoskit's own hold)."""

    op: str
    group: str
    nth: int
    released: bool = False  # False: begins to wait; True: goes on


@dataclass(frozen=True, slots=True)
class PhaseDeclared(Event):
    """The script declared a long phase: no progress is due for ``allowance_s``. 0 ends it."""

    name: str
    allowance_s: float


ErrorCategory = Literal["own", "peer_lost", "timeout", "out_of_memory", "mismatch", "configuration"]


@dataclass(frozen=True, slots=True)
class Raised(Event):
    """An exception left the script. ``category`` looks through the whole chain of causes:
    an own exception raised because of a lost peer is ``peer_lost``."""

    type: str
    message: str
    category: ErrorCategory
    site: str = ""
    stack: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardFired(Event):
    """A guard ends this rank with ``exit_code`` and says why.

    ``local``: what it found is wrong on this very rank (its memory, its settings), not elsewhere.
    ``blames`` are the hosts, interfaces or links that it found to be the cause (``nic hostB docker0``).
    """

    guard: str
    exit_code: int
    message: str
    local: bool = False
    blames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardNoticed(Event):
    """A guard says what it saw and does nothing about it."""

    guard: str
    message: str
    blames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reported(Event):
    """The workload's result on this rank (a number that must equal the known one)."""

    value: float


@dataclass(frozen=True, slots=True)
class Reached(Event):
    """How often the script came to a moment that a fault could fire at, told when its work is done.

    ``what`` is the moment without its number: ``forward of layer.2``, :data:`BATCHES`. For a report of how
    far a script got whose fault did not fire, and for fitting a trigger to a program.
    """

    what: str
    count: int


BATCHES = "batch of a DataLoader"
OWN_RANKS = "rank of its own (mp.spawn)"


@dataclass(frozen=True, slots=True)
class ParameterSum(Event):
    """The checksum of one parameter where the ranks' :class:`Replicated` state differs for the first time.

    Told only of parameters that differ between ranks, of the first moment at which any does: of the first few
    of them, of every rank. ``differing`` of the ``of`` parameters differ in all.
    """

    step: int
    name: str
    checksum: int
    ordinal: int = 0
    final: bool = False
    differing: int = 0
    of: int = 0


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """The script's work is done (what follows is teardown)."""


@dataclass(frozen=True, slots=True)
class Clock(Event):
    """What ``t_s`` means here: the wall clock at that moment, and which boot of which machine it counts from.

    Histories of one machine share their clock; of several, :mod:`chaoskit.judge.clocks` aligns them.
    """

    wall_s: float
    boot: str


# ---------------------------------------------------------------- written by the warden or a rank's keeper


@dataclass(frozen=True, slots=True)
class Started(Event):
    pid: int


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """The process is gone. ``exit_code`` as in subprocess (negative: signal).

    ``by`` says who sent the ending signal, where it was one of ours: ``launcher`` (a guard's
    policy), ``supervisor`` (the deadline came, or chaoskit was interrupted). ``oom_kill``: the
    kernel's memory cgroup counted a kill.
    """

    exit_code: int
    by: Literal["", "launcher", "supervisor"] = ""
    oom_kill: bool = False


@dataclass(frozen=True, slots=True)
class Stopped(Event):
    """The process was stopped (SIGSTOP) or, with ``stopped`` false, goes on."""

    stopped: bool = True


@dataclass(frozen=True, slots=True)
class Signalled(Event):
    """The launcher (a group-kill policy) sent ``signal`` to the rank because of ``reason``."""

    signal: int
    guard: str
    reason: str


@dataclass(frozen=True, slots=True)
class Leftover(Event):
    """A process that outlived all the ranks of the arm and had to be killed."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class LauncherStarted(Event):
    """A launcher of the user's choice (torchrun, srun, …) was started; it starts the ranks."""

    pid: int


@dataclass(frozen=True, slots=True)
class LauncherEnded(Event):
    """That launcher is gone. ``said`` is the end of what it printed to stderr."""

    exit_code: int
    by: Literal["", "supervisor"] = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Reaped(Event):
    """A process nobody else waited for has ended: a rank whose keeper was killed is found here."""

    pid: int
    exit_code: int


# ---------------------------------------------------------------- written by the switch of virtual hosts


@dataclass(frozen=True, slots=True)
class LinkChanged(Event):
    """The link of ``host``'s interface ``nic`` was seen to go down or up, as a switch logs it."""

    host: str
    nic: str
    up: bool


PathState = Literal["open", "refused", "silent", "slow"]


@dataclass(frozen=True, slots=True)
class PathTested(Event):
    """After a failure: can ``host`` reach ``to`` over that one's interface ``nic``, with a TCP connection?

    ``slow``: it connects and does not carry what a working link does. Only paths that there should be (both
    hosts have an interface in that switch) are tested. What is ``down`` in LinkChanged is ``silent`` here.
    """

    host: str
    to: str
    nic: str
    state: PathState
    seconds: float = 0.0


# ---------------------------------------------------------------- written by the supervisor


@dataclass(frozen=True, slots=True)
class Sampled(Event):
    """One look at a live rank at the deadline: process state, progress token, innermost user line."""

    state: str  # as in /proc/PID/stat: R S D T Z
    token: str  # recorder sequence, step, progress: changes when the rank moves
    cpu_s: float
    line: str = ""  # innermost Python frame, file:line
    stack: tuple[str, ...] = ()
    allowance_s: float = 0.0  # what is left of a declared phase
    site: str = ""  # innermost line of the user's code
    io_bytes: int = 0  # of the main thread and of all descendants
    switches: int = -1  # context switches of the main thread: unchanged, it has not run at all


@dataclass(frozen=True, slots=True)
class DeadlineReached(Event):
    """The deadline came with ranks alive; ``final`` says that they are ended now.

    ``over_s``: how far back nothing may have moved for that decision; 0: as far as three looks reach.
    """

    final: bool
    extended_s: float = 0.0
    over_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RunDelay(Event):
    """Seconds this rank was runnable but not running (schedstat): a loaded machine's delay."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Interrupted(Event):
    """chaoskit was told to stop (Ctrl-C)."""


@dataclass(frozen=True, slots=True)
class Malfunction(Event):
    """Something of chaoskit's own went wrong in this arm; it cannot be judged."""

    message: str


@dataclass(frozen=True, slots=True)
class ArmStarted(Event):
    """The clock of the arm starts; ``isolated`` says that it has its own network namespace."""

    isolated: bool


@dataclass(frozen=True, slots=True)
class ArmEnded(Event):
    """All processes of the arm are gone."""
