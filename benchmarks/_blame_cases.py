"""Draws the cases of the accuracy benchmark: fault × rank × moment × workload × ranks × profile, from a seed.

A case depends on the seed and its own number alone, so any one can be run again by itself. A fault is drawn
first, then what it can be had on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from _blame_programs import SCRIPT_CALL, WORKLOADS, Op, Program, worlds

from chaoskit.faults import REGISTRY
from chaoskit.model import (
    Arm,
    Expectation,
    Injection,
    Outcome,
    Phase,
    Scenario,
    Span,
    Topology,
    Trigger,
)

Programs = Mapping[tuple[str, int], Program]
TIMEOUT_S = 1.5
FOREVER_S = 3600.0
BARE, TIMEOUTS, GROUP_KILL, RECOMMENDED = "torch-defaults", "timeouts", "group-kill", "recommended"
PROFILE_FILES = {
    TIMEOUTS: f"guards:\n  timeouts: {{init: 30s, collective: {TIMEOUT_S}s, store: 30s}}\n",
    GROUP_KILL: f"guards:\n  timeouts: {{init: 30s, collective: {TIMEOUT_S}s, store: 30s}}\n"
    "  group_kill: {on_failure: true, signal: SIGTERM, grace: 1s}\n",
}
PROFILES = (BARE, TIMEOUTS, GROUP_KILL, RECOMMENDED)
ERRORS = (
    "RuntimeError: injected failure",
    "OSError: [Errno 28] No space left on device",
    "ValueError: could not convert string to float: 'abc'",
    "KeyError: 'label'",
    "ConnectionResetError: [Errno 104] Connection reset by peer",  # of a data server, say
    "TimeoutError: the read operation timed out",  # of a data server, say
)
SIGNALS = ("SIGKILL", "SIGKILL", "SIGSEGV", "SIGBUS", "SIGTERM", "SIGABRT")
_NOT_HELD = ("monitored_barrier", "send", "recv")
"""Operations without a *during*: nobody can be held at their entry while they are under way."""
DTYPES = ("int32", "float64", "float16", "int64")


@dataclass(frozen=True, slots=True)
class Case:
    """One injection: ``fault`` on ``rank``, at ``when``, in a program, under a profile.

    ``kind`` is the row of the table that it belongs to. ``op`` is the culprit's operation that the trigger
    names, None for a trigger that names none.
    """

    number: int
    kind: str
    workload: str
    ranks: int
    rank: int
    fault: str
    settings: tuple[tuple[str, object], ...]
    when: Trigger
    profile: str
    op: Op | None = None

    @property
    def name(self) -> str:
        return f"case-{self.number:04d}-{self.kind}"

    def __str__(self) -> str:
        given = ", ".join(f"{k} {v}" for k, v in self.settings)
        what = f"{self.fault} ({given})" if given else self.fault
        return f"{what} on rank {self.rank} of {self.ranks}, {self.when}, {self.workload}, {self.profile}"


def scenario(case: Case, profiles: Path) -> Scenario:
    """Return the scenario of a case; ``profiles`` is the folder of the files in PROFILE_FILES."""
    cls = REGISTRY.get(case.fault)
    assert cls is not None
    make: Callable[..., object] = cls
    fault = make(rank=(case.rank,), **dict(case.settings))
    profile = str(profiles / f"{case.profile}.yaml") if case.profile in PROFILE_FILES else case.profile
    within = Span(2.0) if case.profile == BARE else Span(2.0, "collective")
    arms = (
        Arm("control", profile, Expectation((), within=within)),
        Arm("hardened", profile, Expectation((("gloo", Outcome.FAILED),), within=within)),
    )
    return Scenario(
        case.name, str(case), "benchmark", WORKLOADS[case.workload], Topology(case.ranks),
        (Injection(fault, case.when),), arms, backends=("gloo",),  # type: ignore[arg-type]  # of the registry
    )  # fmt: skip


def write_profiles(folder: Path) -> None:
    for name, text in PROFILE_FILES.items():
        (folder / f"{name}.yaml").write_text(f"name: {name}\nsummary: of a benchmark\n{text}")


# ---------------------------------------------------------------- drawing


def draw(seed: int, number: int, programs: Programs) -> Case:
    """Return case ``number`` of ``seed``."""
    chance = random.Random(f"{seed}/{number}")
    kind = KINDS[number % len(KINDS)]
    while True:
        case = _DRAW[kind](chance, number, kind, _program(chance, kind, programs))
        if case is not None:
            return case


def _program(chance: random.Random, kind: str, programs: Programs) -> Program:
    workload = "uneven-data" if kind == "end-of-data" else chance.choice(sorted(WORKLOADS))
    ranks = 4 if chance.random() < 0.55 else chance.choice(worlds(workload))
    return programs[workload, ranks]


def _stays_away(fault: str, *settings: tuple[str, object], profiles: tuple[str, ...] = PROFILES) -> _Draw:
    """A fault after which the rank comes to no further operation, at any moment that a script has."""

    def drawn(chance: random.Random, number: int, kind: str, program: Program) -> Case | None:
        rank = chance.randrange(program.ranks)
        when, op = _moment(chance, program, rank, fault)
        chosen = tuple((k, chance.choice(v) if isinstance(v, tuple) else v) for k, v in settings)
        profile = chance.choice(profiles)
        return Case(
            number, kind, program.workload, program.ranks, rank, fault, chosen, when, profile, op
        )  # fmt: skip

    return drawn


def _moment(chance: random.Random, program: Program, rank: int, fault: str) -> tuple[Trigger, Op | None]:
    share = chance.random()
    if share < 0.2 and program.steps(rank) > 3:
        return Trigger("step", step=chance.randrange(1, program.steps(rank) - 1)), None
    if share < 0.3 and program.workload == "script" and fault != "sigterm":
        return Trigger("call", call=SCRIPT_CALL, nth=chance.randrange(1, program.steps(rank))), None
    while True:
        op = chance.choice(program.ops[rank][:-1])
        phases = [Phase.BEFORE] if fault != "sigterm" else []  # it comes some operations later: nothing waits
        if op.op not in _NOT_HELD and len(op.members) > 1:
            phases.append(Phase.DURING)
        if not op.overlapped and fault != "sigterm":
            phases.append(Phase.AFTER)
        if phases:
            phase = chance.choice(phases)
            return Trigger("collective", op.op, op.nth, op.group, phase), op


def _comes_late(chance: random.Random, number: int, kind: str, program: Program) -> Case | None:
    """It comes to the operation when the others' patience is over, and finds it broken."""
    rank = chance.randrange(program.ranks)
    ops = [o for o in program.ops[rank] if o.step > 1 and not o.between_two]
    op = chance.choice(ops)
    when = Trigger("collective", op.op, op.nth, op.group)
    if op.op == "monitored_barrier":
        return None  # it counts its timeout itself, and may outlast the late rank
    late = (("for_s", 2.2 * TIMEOUT_S),)
    return Case(
        number, kind, program.workload, program.ranks, rank, "stall", late, when, TIMEOUTS, op
    )  # fmt: skip


def _parts(fault: str, **settings: tuple[object, ...]) -> _Draw:
    """A fault after which the rank goes on, with other operations than its peers."""

    def drawn(chance: random.Random, number: int, kind: str, program: Program) -> Case | None:
        rank = chance.randrange(program.ranks)
        places = [o for o in program.ops[rank] if o.step > 1 and _fits(fault, o, program, rank)]
        if not places:
            return None
        op = chance.choice(places)
        chosen = tuple((key, chance.choice(values)) for key, values in settings.items())
        if fault == "reshape":
            chosen = (("factor", 2.0 if _numel(op) < 4 else chance.choice((0.5, 2.0))),)
        when = Trigger("collective", op.op, op.nth, op.group)
        return Case(
            number, kind, program.workload, program.ranks, rank, fault, chosen, when,
            chance.choice(PROFILES), op,
        )  # fmt: skip

    return drawn


def _fits(fault: str, op: Op, program: Program, rank: int) -> bool:
    """Does this fault change what the rank does there, and what comes next?"""
    if op.between_two:
        return False
    if fault in ("reshape", "cast"):
        return op.shape != ""
    whole = program.ops[rank]
    if any(o.between_two for o in whole[whole.index(op) + 1 :][:1]):
        return False  # its partner alone would have to wait for it, or not even that
    following = program.in_group(rank, op.group)
    at = following.index(op)
    if at + 1 == len(following):
        return False  # the last one: nothing comes after it
    return fault != "swap" or following[at + 1].fingerprint != op.fingerprint


def _numel(op: Op) -> int:
    first = op.shape.split(",", maxsplit=1)[0]
    size = 1
    for part in first.split("x"):
        size *= int(part) if part.isdigit() else 1
    return size


def _data_ends(chance: random.Random, number: int, kind: str, program: Program) -> Case | None:
    rank = chance.randrange(program.ranks)
    when = Trigger("loader", nth=chance.randrange(2, program.steps(rank)))
    return Case(
        number, kind, program.workload, program.ranks, rank, "end-of-data", (), when, chance.choice(PROFILES)
    )  # fmt: skip


_Draw = Callable[[random.Random, int, str, Program], Case | None]
_DRAW: Mapping[str, _Draw] = {
    "kill": _stays_away("kill", ("signal", SIGNALS)),
    "stop": _stays_away("stop"),
    "raise": _stays_away("raise", ("error", ERRORS)),
    "leave-0": _stays_away("leave", ("code", 0)),
    "leave-n": _stays_away("leave", ("code", (1, 3, 17))),
    "oom": _stays_away("oom", ("handler", ("none", "none", "destroy-and-exit"))),
    "sigterm": _stays_away("sigterm", ("handler", "exit-zero")),  # without a handler it is a kill
    "stall": _stays_away("stall", ("for_s", "forever")),
    "hold-gil": _stays_away("hold-gil", ("for_s", FOREVER_S)),
    "late": _comes_late,
    "skip": _parts("skip"),
    "extra": _parts("extra"),
    "swap": _parts("swap"),
    "reshape": _parts("reshape"),
    "cast": _parts("cast", dtype=DTYPES),
    "end-of-data": _data_ends,
}
KINDS = tuple(_DRAW)
