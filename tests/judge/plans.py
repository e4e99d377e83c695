"""Plans by hand, for judging hand-made histories."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.model import (
    Contract,
    Culprit,
    Fault,
    Guard,
    Injection,
    Outcome,
    Phase,
    Plan,
    Profile,
    RankPlan,
    RankSet,
    Span,
    Trigger,
    Workload,
)


@dataclass(frozen=True, slots=True)
class Kill(Fault):
    name: ClassVar[str] = "kill"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    ends_by_signal: ClassVar[bool] = True
    rank: RankSet = (1,)


@dataclass(frozen=True, slots=True)
class Stall(Fault):
    name: ClassVar[str] = "stall"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    rank: RankSet = (1,)


@dataclass(frozen=True, slots=True)
class Belt(Guard):
    name: ClassVar[str] = "belt"
    lives_in: ClassVar = "rank"
    exit_codes: ClassVar[dict[int, str]] = {-41: "belt"}


HARDENED = Contract(Outcome.FAILED, Span(2.0), "nonzero", culprits=(Culprit("rank", "1"),))


def plan_of(
    fault: Fault | None = None, *, size: int = 4, phase: Phase = Phase.BEFORE, **changes: object
) -> Plan:
    """A plan of ``size`` ranks with one fault before all_reduce #2, whose contract is HARDENED."""
    injections = (
        () if fault is None else (Injection(fault, Trigger("collective", "all_reduce", 2, phase=phase)),)
    )
    plan = Plan(
        scenario="s",
        arm="hardened",
        backend="gloo",
        seed=1,
        repeat=1,
        attempt=1,
        profile=Profile("p"),
        time_scale=1.0,
        workload=Workload("w"),
        ranks=tuple(RankPlan(slot, ()) for slot in range(size)),
        injections=injections,
        contract=HARDENED,
        hardened_contract=HARDENED,
        healthy=False,
        bound_s=2.0,
        production_bound_s=2.0,
        deadline_s=4.5,
        start_limit_s=30.0,
        expected_result=7.0,
        master_port=1,
        gated=True,
        rerun="chaoskit run s",
    )
    return dataclasses.replace(plan, **changes)  # type: ignore[arg-type]
