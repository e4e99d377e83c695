"""Arms by hand for the HTML report: what a run directory would hold, as values. No rank is started."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from chaoskit import recorded
from chaoskit.arm_record import ArmRecord
from chaoskit.evidence.findings import RankFindings, ThreadStack
from chaoskit.history import (
    ArmEnded,
    ArmStarted,
    Completed,
    DeadlineReached,
    Ended,
    Entered,
    Event,
    GuardFired,
    Identity,
    Injected,
    Raised,
    Signalled,
    Started,
    Stopped,
)
from chaoskit.model import (
    Contract,
    Culprit,
    Kind,
    Operation,
    Outcome,
    Plan,
    Profile,
    RankEnd,
    RankPlan,
    Result,
    ScenarioResult,
    Span,
    Status,
    Verdict,
    Workload,
)
from chaoskit.reports.judged import Judged
from chaoskit.verdict import Sureness

PROMISED = Contract(Outcome.FAILED, Span(2.0), "nonzero", culprits=(Culprit("rank", "1"),))

VERDICT = Verdict(
    scenario="rank-stopped",
    arm="hardened",
    repeat=1,
    attempt=1,
    backend="gloo",
    profile="strict",
    status=Status.FAIL,
    reason="expected failed, found hung",
    outcome=Outcome.HUNG,
    kind=Kind.FROZEN,
    bound_s=2.0,
    production_bound_s=80.0,
    culprits=(Culprit("rank", "1"),),
    victims=(0, 2, 3),
    where="train.py:31",
    ranks=tuple(RankEnd(r, None, None, Operation("all_reduce", "default", 20)) for r in range(4)),
    rerun="chaoskit run rank-stopped --arm hardened --seed 7",
    cause="rank 1 stopped before all_reduce #20; the others wait in it",
    at=Operation("all_reduce", "default", 20),
    sureness=Sureness.CERTAIN,
    evidence=("its process is stopped",),
)


def plan(**changes: object) -> Plan:
    """The plan of the hardened arm."""
    made = Plan(
        scenario="rank-stopped",
        arm="hardened",
        backend="gloo",
        seed=7,
        repeat=1,
        attempt=1,
        profile=Profile("strict", "everything on", (), (("TORCH_NCCL_BLOCKING_WAIT", "1"),)),
        time_scale=0.025,
        workload=Workload("all-reduce-loop"),
        ranks=tuple(RankPlan(slot, ()) for slot in range(4)),
        injections=(),
        contract=PROMISED,
        hardened_contract=PROMISED,
        healthy=False,
        bound_s=2.0,
        production_bound_s=80.0,
        deadline_s=3.5,
        start_limit_s=30.0,
        expected_result=None,
        master_port=1,
        gated=True,
        rerun="chaoskit run rank-stopped --arm hardened --seed 7",
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def events(ranks: int = 4, operations: int = 20, host: str = "") -> list[Event]:
    """Rank 1 stops before the last operation; the others wait in it until the deadline."""
    members = tuple(range(ranks))
    found: list[Event] = [ArmStarted(10.0, -1, True)]
    for slot in members:
        where = host or f"host{slot * 2 // ranks}"
        found.append(Started(10.0 + slot / 1000, slot, 100 + slot))
        found.append(Identity(10.01, slot, slot, slot, ranks, where, 100 + slot, "chaoskit", "2.13"))
    for nth in range(1, operations + 1):
        at_s = 10.1 + nth * 0.02
        for slot in members:
            if nth == operations and slot == 1:
                continue
            # Rank 0 always comes 4 ms before the last.
            entered_s = at_s - (0.004 if slot == 0 else 0.001 * (slot % 3 != 2))
            what = ("all_reduce", "default", nth, nth, nth)
            found.append(Entered(entered_s, slot, *what, 9, "train.py:31", "1024", "float32", members))
            if nth < operations:
                found.append(Completed(at_s + 0.006, slot, *what))
    over_s = 10.1 + operations * 0.02
    found += [
        Injected(over_s, 1, 0, "stop", "all_reduce", "default", operations, "before"),
        Stopped(over_s + 0.001, 1),
        GuardFired(over_s + 1.0, 0, "watchdog", 84, "no progress for 1 s"),
        Raised(over_s + 1.1, 2, "RuntimeError", "connection closed", "peer_lost", "train.py:31"),
        Signalled(over_s + 1.2, 3, 15, "group_kill", "rank 0 is gone"),
        DeadlineReached(over_s + 3.5, -1, True),
        *(Ended(over_s + 3.6, slot, -9, "supervisor") for slot in members),
        ArmEnded(over_s + 3.7, -1),
    ]
    return sorted(found, key=lambda e: e.t_s)


def findings(ranks: int = 4) -> tuple[RankFindings, ...]:
    outer = (
        "all_reduce (/usr/lib/site-packages/torch/distributed/c10d.py:10)",
        "main (/job/train.py:31)",
    )
    return tuple(
        RankFindings(
            slot,
            "T" if slot == 1 else "S",
            (
                ThreadStack(
                    "MainThread", 1, True, ("stop (stop.py:3)" if slot == 1 else "wait (gloo)", *outer)
                ),
                ThreadStack(f"pt_{slot}", 2, False, ("poll (libc)",)),
            ),
            "py-spy",
        )
        for slot in range(ranks)
    )


def arm(verdict: Verdict = VERDICT, **changes: object) -> ArmRecord:
    """The record of one arm, with what is given changed."""
    made = ArmRecord(Path("/run/arm"), verdict, plan(), recorded.gathered(events()), findings())
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def judged(*verdicts: Verdict) -> Judged:
    """A run of these, each a scenario of its own."""
    of = {Status.FAIL: Result.NOT_HELD, Status.PASS: Result.HELD, Status.SKIPPED: Result.SKIPPED}
    results = tuple(
        ScenarioResult(v.scenario, "gloo", of.get(v.status, Result.INCONCLUSIVE), v.reason, (v,))
        for v in verdicts
    )
    return Judged(Path("/run"), 7, "2.13.0", results, 3.0)


HOSTILE = (
    "</script><script>window.stolen=1</script><img src=x onerror=window.stolen=1>"
    "{{7*7}}&amp;\u202eabc\u2028\x1b[31m\x00\"'`"
)
"""Tries to leave every place that a text can stand in."""
