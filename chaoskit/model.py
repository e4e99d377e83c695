"""The values that flow through chaoskit: scenario, plan, contract, verdict. Frozen, no I/O.

``Scenario ──plan──▶ Plan ──run──▶ History ──judge──▶ Verdict``. The events of a history are in
:mod:`chaoskit.history`. Durations are seconds in fields named ``*_s``; in YAML the same key is
written without ``_s``. What is said of an arm is in :mod:`chaoskit.verdict`, and can be had from here too.
This module may import nothing of chaoskit but errors, network, sharing and verdict, and neither
torch nor pydantic.
"""

from __future__ import annotations

import dataclasses
import enum
from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from chaoskit.gpu.sharing import Asked
from chaoskit.network import STORE_HOST, Network, Nic
from chaoskit.verdict import (
    Backend as Backend,
)
from chaoskit.verdict import (
    Blame as Blame,
)
from chaoskit.verdict import (
    Culprit as Culprit,
)
from chaoskit.verdict import (
    Kind as Kind,
)
from chaoskit.verdict import (
    Operation as Operation,
)
from chaoskit.verdict import (
    Outcome as Outcome,
)
from chaoskit.verdict import (
    RankEnd as RankEnd,
)
from chaoskit.verdict import (
    Result as Result,
)
from chaoskit.verdict import (
    ScenarioResult as ScenarioResult,
)
from chaoskit.verdict import (
    Status as Status,
)
from chaoskit.verdict import (
    Verdict as Verdict,
)
from chaoskit.verdict import (
    link as link,
)

ALL_RANKS: Literal["all"] = "all"
RankSet = tuple[int, ...] | Literal["all"]
TimeoutName = Literal["init", "collective", "store"]
Launcher = Literal["forkserver", "torchrun", "command"]
GpuSharing = Asked


class Phase(enum.StrEnum):
    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a fault fires, on each of its target ranks. Exactly one kind.

    - collective: ``op`` (and ``nth`` from 1, ``group``, ``phase``); with ``step`` the count is
      within that step.
    - step: ``step`` alone: when optimizer step number ``step`` (from 1) is done.
    - call: ``call`` dotted name, ``nth``, ``phase`` before/after.
    - forward, backward: the ``nth`` forward or backward of the submodule that is called ``module`` (its
      dotted name in the model, with or without the names that wrappers add; a class name is taken too),
      ``phase`` before/after.
    - loader: the ``nth`` batch that any DataLoader of the rank hands out, ``phase`` before/after.
    - write: when for the ``nth`` time a file whose path matches the pattern ``path`` has got its first byte,
      whoever writes it; a file that is written anew counts again.
    - init: just before the process group is formed.
    - launch: the environment a launcher hands over, before the process starts.
    - after: ``after_s`` seconds after the rank's script started.
    """

    kind: Literal[
        "collective", "step", "call", "forward", "backward", "loader", "write", "init", "launch", "after"
    ]
    op: str = ""
    nth: int = 1
    group: str = "default"
    phase: Phase = Phase.BEFORE
    step: int = 0
    call: str = ""
    after_s: float = 0.0
    module: str = ""
    path: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "collective":
                within = f" of step {self.step}" if self.step else ""
                of = "" if self.group == "default" else f" of group {self.group}"
                return f"{self.phase} {self.op} #{self.nth}{of}{within}"
            case "step":
                return f"after step {self.step}"
            case "call":
                return f"{self.phase} call #{self.nth} of {self.call}"
            case "forward" | "backward":
                return f"{self.phase} {self.kind} #{self.nth} of {self.module}"
            case "loader":
                return f"{self.phase} batch #{self.nth} of a DataLoader"
            case "write":
                nth = f" (file #{self.nth})" if self.nth > 1 else ""
                return f"at the first byte written to {self.path}{nth}"
            case "after":
                return f"{self.after_s:g} s after the start"
            case _:
                return f"at {self.kind}"


class Fault(ABC):
    """One thing that goes wrong. Subclasses are frozen dataclasses, one file each, in faults/."""

    name: ClassVar[str]
    """The key in YAML."""
    triggers: ClassVar[frozenset[str]]
    """The trigger kinds it can be given, as in :class:`Trigger.kind`."""
    phases: ClassVar[frozenset[str]] = frozenset({"before", "during", "after"})
    """The phases of a collective that it can fire in."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Capabilities of the machine (see chaoskit.capabilities) without which it cannot be had."""
    ends_by_signal: ClassVar[bool] = False
    """True when the fault itself ends the rank by a signal (an *ordered* death)."""

    rank: RankSet


class Guard(ABC):
    """One protection. Subclasses are frozen dataclasses, one file each, in guards/."""

    name: ClassVar[str]
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]]
    exit_codes: ClassVar[dict[int, str]] = {}
    """Exit codes (negative: signals) with which it ends a rank, and what each means."""
    backends: ClassVar[tuple[str, ...]] = ("gloo", "nccl")
    """Where it has an effect; elsewhere it is *not applicable*."""
    serves_store: ClassVar[bool] = False
    """True when its launcher has to run the store apart from the ranks, where they are on several hosts."""

    def scaled(self, factor: float) -> Self:
        """Return a copy with every duration (fields named ``*_s``) multiplied by ``factor``."""
        changes = {
            f.name: getattr(self, f.name) * factor
            for f in dataclasses.fields(self)  # type: ignore[arg-type]
            if f.name.endswith("_s") and getattr(self, f.name) is not None
        }
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts in effect under a profile, in seconds; None where the profile sets none."""

    init_s: float | None = None
    collective_s: float | None = None
    store_s: float | None = None

    def named(self, name: TimeoutName) -> float | None:
        value: float | None = getattr(self, f"{name}_s")
        return value


@dataclass(frozen=True, slots=True)
class Profile:
    """A named hardening: guards with their settings, and environment variables."""

    name: str
    summary: str = ""
    guards: tuple[Guard, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    file: str = ""

    def guard(self, name: str) -> Guard | None:
        """Return the guard called ``name``, or None."""
        return next((g for g in self.guards if g.name == name), None)

    def scaled(self, factor: float) -> Profile:
        return dataclasses.replace(self, guards=tuple(g.scaled(factor) for g in self.guards))

    @property
    def timeouts(self) -> Timeouts:
        """What the ``timeouts`` guard of this profile sets (its fields init_s, collective_s, store_s)."""
        guard = self.guard("timeouts")
        if guard is None:
            return Timeouts()
        return Timeouts(*(getattr(guard, f"{n}_s", None) for n in ("init", "collective", "store")))


@dataclass(frozen=True, slots=True)
class Span:
    """A duration: ``plus_s`` alone, or ``times`` a timeout of the profile under test plus ``plus_s``.

    ``plus_s`` is never scaled by ``--time-scale``.
    """

    plus_s: float = 0.0
    timeout: TimeoutName | None = None
    times: float = 1.0

    def seconds(self, timeouts: Timeouts) -> float | None:
        """Return seconds under ``timeouts``; None where the profile does not set that timeout."""
        if self.timeout is None:
            return self.plus_s
        base = timeouts.named(self.timeout)
        return None if base is None else base * self.times + self.plus_s

    def __str__(self) -> str:
        if self.timeout is None:
            return f"{self.plus_s:g} s"
        plus = f" + {self.plus_s:g} s" if self.plus_s else ""
        times = "" if self.times == 1 else f"{self.times:g} × "
        return f"{times}{self.timeout} timeout{plus}"


@dataclass(frozen=True, slots=True)
class Contract:
    """What an arm promises. None or empty means: not promised (a control has no recorded outcome on a
    backend where nobody has observed one).

    ``says`` is text that a guard's own message must contain, so that the user learns it from
    the job itself. That nothing is left behind is always part of the contract.
    """

    outcome: Outcome | None
    within: Span | None = None
    exit: Literal["zero", "nonzero"] | None = None
    exit_codes: tuple[tuple[int, int], ...] = ()  # (rank, code) pairs
    culprits: tuple[Culprit, ...] | None = None
    kind: Kind | None = None
    says: str = ""


BUILT_IN: Literal["built-in"] = "built-in"
SCRATCH = "{scratch}"
"""Stands for a folder of the arm's own in the arguments of a user's program, and in paths of faults."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What runs: a built-in workload and its settings, or a program of the user's.

    - ``script``: ``target`` is the absolute path of a Python file, ``args`` its arguments;
    - ``module``: ``target`` is a dotted name, as for ``python -m``;
    - ``command``: ``args`` is the whole command line of a launcher that starts the ranks.

    ``name`` is what reports call it.
    """

    name: str
    settings: tuple[tuple[str, int | float | str | bool], ...] = ()
    kind: Literal["built-in", "script", "module", "command"] = BUILT_IN
    target: str = ""
    args: tuple[str, ...] = ()

    @property
    def is_built_in(self) -> bool:
        return self.kind == BUILT_IN

    def setting(self, key: str, default: int) -> int:
        return int(dict(self.settings).get(key, default))


@dataclass(frozen=True, slots=True)
class Topology:
    """``ranks`` processes are started, on this machine or, with ``hosts`` or ``nics``, on virtual hosts.

    ``own_name`` is what the name of each host resolves to on itself: an interface or an address; '' is its
    first interface that is in a switch. ``gpu_sharing`` is how ranks share GPUs where there are too few
    (:mod:`chaoskit.gpu.sharing`).
    """

    ranks: int = 4
    backend: Backend = "gloo"
    hosts: int = 1
    nics: tuple[Nic, ...] = ()
    own_name: str = ""
    gpu_sharing: GpuSharing = "auto"

    @property
    def is_virtual(self) -> bool:
        """True where the ranks run on virtual hosts."""
        return self.hosts > 1 or bool(self.nics) or bool(self.own_name)


@dataclass(frozen=True, slots=True)
class Injection:
    """A fault with the moment it fires."""

    fault: Fault
    when: Trigger


@dataclass(frozen=True, slots=True)
class Expectation:
    """A contract as written in a file: the outcome may differ by backend."""

    outcome: tuple[tuple[Backend, Outcome], ...]
    within: Span | None = None
    exit: Literal["zero", "nonzero"] | None = None
    exit_codes: tuple[tuple[int, int], ...] = ()
    culprits: tuple[Culprit, ...] | None = None
    kind: Kind | None = None
    says: str = ""

    def on(self, backend: Backend) -> Contract | None:
        """Return the contract on ``backend``; None where the file promises nothing there."""
        outcome = dict(self.outcome).get(backend)
        if outcome is None:
            return None
        return Contract(outcome, self.within, self.exit, self.exit_codes, self.culprits, self.kind, self.says)


@dataclass(frozen=True, slots=True)
class Arm:
    """One run of a scenario under one profile. The arm named ``control`` has no guards."""

    name: str
    profile: str
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Known:
    """What a built-in profile other than the hardened arm's does here, as observed."""

    profile: str
    backend: Backend
    result: Result
    outcome: Outcome | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file: a workload, a topology, faults, and two or more arms.

    A *healthy* scenario (a twin) has to complete under every arm; its control need not bite.
    """

    name: str
    summary: str
    family: str
    workload: Workload
    topology: Topology
    injections: tuple[Injection, ...]
    arms: tuple[Arm, ...]
    seen_in: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    backends: tuple[Backend, ...] = ("gloo", "nccl")
    healthy: bool = False
    known: tuple[Known, ...] = ()
    file: str = ""

    def arm(self, name: str) -> Arm | None:
        return next((a for a in self.arms if a.name == name), None)

    @property
    def needs(self) -> tuple[str, ...]:
        """The capabilities of the machine that it cannot be run without, its backend aside."""
        network = ["virtual-hosts"] if self.topology.is_virtual else []
        rates = ["link-rate"] if any(nic.rate_bps is not None for nic in self.topology.nics) else []
        faults = [name for injection in self.injections for name in injection.fault.needs]
        return tuple(dict.fromkeys([*self.requires, *network, *rates, *faults]))


@dataclass(frozen=True, slots=True)
class RankPlan:
    """One process to start: its slot (0-based order of starting), the launcher's environment, and the virtual
    host it runs on ('' is this machine)."""

    slot: int
    env: tuple[tuple[str, str], ...]
    unset: tuple[str, ...] = ()
    host: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one arm needs, resolved: nothing below this is random or looked up.

    ``profile`` is already scaled by ``time_scale``. ``bound_s`` is the seconds from the injection
    to the end of the last rank that the *hardened* contract allows, ``deadline_s`` adds the margin.
    ``start_limit_s`` bounds the time from the start of the arm to its injection (or to its end,
    for a healthy arm).
    ``expected_result`` is None where the result cannot be known. ``stall_s`` is set for a user's program:
    nobody knows how long it takes to its fault, so what is limited is the time without any progress.
    """

    scenario: str
    arm: str
    backend: Backend
    seed: int
    repeat: int
    attempt: int
    profile: Profile
    time_scale: float
    workload: Workload
    ranks: tuple[RankPlan, ...]
    injections: tuple[Injection, ...]
    contract: Contract
    hardened_contract: Contract
    healthy: bool
    bound_s: float | None
    production_bound_s: float | None
    deadline_s: float
    start_limit_s: float
    expected_result: float | None
    master_port: int
    gated: bool  # ranks other than 0 wait for the store to listen (never where init is the subject)
    rerun: str
    timeout_s: float | None = None  # the user's own limit on the arm, which shortens the others
    stall_s: float | None = None  # until the last fault has fired: time without progress that is a hang
    launcher: Launcher = "forkserver"
    notes: tuple[str, ...] = ()  # what was changed to fit this run, for the report
    network: Network | None = None  # the virtual hosts
    gpu_mib: int = 0  # what the arm is reckoned to need of the fullest GPU
    schema_version: int = 1

    @property
    def serves_store(self) -> bool:
        """True where the store is on a host of its own, and no rank's."""
        return self.network is not None and self.network.store == STORE_HOST


JsonValue = Any  # json.loads gives no better type; only codec.py and reports/ touch it
