"""Every scenario of the library on a program that nobody here wrote: what is moved, and what is promised."""

from __future__ import annotations

import dataclasses
from typing import Any

import library
import pytest

from chaoskit import faults
from chaoskit.faults.extra import Extra
from chaoskit.faults.kill import Kill
from chaoskit.faults.reshape import Reshape
from chaoskit.faults.skip import Skip
from chaoskit.faults.swap import Swap
from chaoskit.faults.wrong_group import WrongGroup
from chaoskit.model import Fault, Injection, Outcome, Phase, Scenario, Trigger, Workload
from chaoskit.scenario.adapting import Unfit, adapt
from chaoskit.scenario.survey import Issued, Survey

PROGRAM = Workload("train.py", kind="script", target="/x/train.py", args=("--out", "{scratch}"))
LIBRARY = library.scenarios()
UNFIT = {
    "file-decides", "file-decides-for-all", "lock-left-over", "lock-left-over-is-stale",
    "checkpoint-truncated", "wrong-group", "wrong-subgroup",
}  # fmt: skip
"""A file is there that only the workload looks for, or a second process group."""


def survey(*, ops: str = "all_reduce", steps: int = 9, batches: int = 9, ranks: int = 4) -> Survey:
    """``ops`` are issued one after the other in each of 10 steps; one in capitals has no tensors."""
    issued: list[Issued] = []
    for step in range(1, 11):
        for op in ops.split():
            nth = sum(i.op == op.lower() for i in issued) + 1
            issued.append(Issued(op.lower(), "default", nth, step, op.islower()))
    return Survey(dict.fromkeys(range(ranks), tuple(issued)), steps, batches, 3.0)


def fitted(fault: Fault, when: Trigger, seen: Survey, program: Workload = PROGRAM) -> tuple[Trigger, str]:
    scenario = dataclasses.replace(LIBRARY[0], injections=(Injection(fault, when),))
    found, notes = adapt(scenario, program, seen)
    return found.injections[0].when, "; ".join(notes)


def at(op: str, nth: int = 3, **fields: Any) -> Trigger:
    return Trigger("collective", op=op, nth=nth, **fields)


KILL = Kill((1,))
CASES: list[tuple[Fault, Trigger, Survey, Trigger, str]] = [
    (KILL, at("all_reduce"), survey(), at("all_reduce"), ""),
    (KILL, at("all_reduce", 30), survey(), at("all_reduce", 5),
     "all_reduce #30 → all_reduce #5: the program issues all_reduce 10 times"),
    (Skip((0,)), at("barrier"), survey(), at("all_reduce", 5),
     "barrier #3 → all_reduce #5: the program issues no barrier"),
    (KILL, at("all_reduce", phase=Phase.DURING, group="left"), survey(),
     at("all_reduce", phase=Phase.DURING), "the program has no group left"),
    (Reshape((1,), 0.5), at("all_reduce"), survey(ops="BARRIER BARRIER broadcast"), at("broadcast", 5),
     "issues no all_reduce"),
    (KILL, at("all_reduce", 2, step=3), survey(), at("all_reduce", 2), "issues all_reduce 1 time in step 3"),
    (KILL, at("barrier"), survey(ops=""), Trigger("step", step=4), "barrier #3 → after step 4"),
    (Swap((1,)), at("all_reduce", 7), survey(ops="all_reduce all_reduce barrier"), at("all_reduce", 12),
     "has no other operation after all_reduce #7"),
    (Swap((1,)), at("all_reduce", 4), survey(ops="all_reduce all_reduce barrier"), at("all_reduce", 4), ""),
    (KILL, Trigger("step", step=5), survey(), Trigger("step", step=5), ""),
    (KILL, Trigger("step", step=50), survey(), Trigger("step", step=4), "does 9 optimizer steps"),
    (KILL, Trigger("step", step=5), survey(steps=0), at("all_reduce", 5), "does 0 optimizer steps"),
    (KILL, Trigger("step", step=5), survey(steps=0, ops="", batches=8), Trigger("loader", nth=4), ""),
    (KILL, Trigger("step", step=5), survey(steps=0, ops="", batches=0), Trigger("after", after_s=1.5), ""),
    (KILL, Trigger("after", after_s=60), survey(), Trigger("after", after_s=1.5), "takes 3 s"),
    (KILL, Trigger("loader", nth=20), survey(), Trigger("loader", nth=4), "takes 9 batches"),
    (KILL, Trigger("forward", module="layer.2"), survey(), Trigger("step", step=4), "without layer.2"),
    (KILL, Trigger("call", call="torch.save"), survey(), Trigger("call", call="torch.save"), ""),
    (KILL, Trigger("call", call="chaoskit.workloads.x.load"), survey(), Trigger("step", step=4),
     "has no function load of the workload's"),
    (KILL, Trigger("write", path="{scratch}/a-*.pt", nth=3), survey(), Trigger("write", path="{scratch}/*"),
     "names its files itself"),
    (KILL, Trigger("init"), survey(), Trigger("init"), ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "when", "seen", "moved", "note"),
    CASES,
    ids=[f"{c[0].name}-{c[1]}-{i}" for i, c in enumerate(CASES)],
)
def test_a_trigger_is_moved_to_the_nearest_thing_that_the_program_does(
    fault: Fault, when: Trigger, seen: Survey, moved: Trigger, note: str
) -> None:
    found, said = fitted(fault, when, seen)
    assert found == moved
    assert note in said
    assert bool(said) == (found != when)


@pytest.mark.parametrize(
    ("fault", "when", "seen", "why"),
    [
        (Extra((1,)), at("all_reduce"), survey(ops=""), "issues no all_reduce, and no other"),
        (Swap((1,)), at("all_reduce"), survey(), "two different operations in a row"),
        (Reshape((1,), 0.5), at("all_reduce"), survey(ops="BARRIER"), "no other that reshape could act on"),
    ],
)
def test_what_the_program_has_nothing_for_cannot_be_had(
    fault: Fault, when: Trigger, seen: Survey, why: str
) -> None:
    with pytest.raises(Unfit, match=why):
        fitted(fault, when, seen)


def test_a_fault_in_the_arms_folder_needs_a_program_that_is_told_of_it() -> None:
    cls = faults.REGISTRY.get("disk-full")
    assert cls is not None
    fault: Any = cls
    plain = dataclasses.replace(PROGRAM, args=())
    with pytest.raises(Unfit, match=r"give it as \{scratch\} among its arguments"):
        fitted(fault(rank=(0,), path="{scratch}", bytes=65536), Trigger("step", step=3), survey(), plain)


def test_a_fault_of_loader_workers_needs_a_loader() -> None:
    cls: Any = faults.REGISTRY.get("loader-worker-killed")
    with pytest.raises(Unfit, match="needs a DataLoader, and the program uses none"):
        fitted(cls(rank=(1,)), Trigger("step", step=3), survey(batches=0))


def test_the_wrong_group_is_one_that_the_program_has() -> None:
    plain = survey()
    with pytest.raises(Unfit, match="needs a second process group"):
        fitted(WrongGroup((1,), "metrics"), at("all_reduce"), plain)
    both = (*plain.issued[0], Issued("barrier", "tp", 1, 1, False))
    seen = dataclasses.replace(plain, issued=dict.fromkeys(range(4), both))
    for asked, got in (("metrics", ""), ("tp", "tp")):
        scenario = dataclasses.replace(
            LIBRARY[0], injections=(Injection(WrongGroup((1,), asked), at("all_reduce")),)
        )
        assert adapt(scenario, PROGRAM, seen)[0].injections[0].fault == WrongGroup((1,), got)


@pytest.mark.parametrize("scenario", LIBRARY, ids=lambda s: s.name)
def test_the_whole_library_fits_a_plain_training_script_or_says_why_not(scenario: Scenario) -> None:
    try:
        found, notes = adapt(scenario, PROGRAM, survey(ops="all_reduce all_reduce broadcast BARRIER"))
    except Unfit:
        assert scenario.name in UNFIT
        return
    assert scenario.name not in UNFIT
    assert found.workload == PROGRAM
    assert not found.known
    for before, after in zip(scenario.injections, found.injections, strict=True):
        assert after.fault == before.fault
        assert after.when.kind in after.fault.triggers
        assert after.when.nth <= 20 and after.when.step <= 9
    assert all(" → " in note and ": the program " in note for note in notes)
    control, hardened = found.arm("control"), found.arm("hardened")
    assert control is not None and hardened is not None
    if scenario.healthy:
        assert dict(control.expect.outcome)[scenario.topology.backend] is Outcome.COMPLETED
    else:
        assert control.expect.on("gloo") is None
        assert (hardened.expect.kind, hardened.expect.says, hardened.expect.exit_codes) == (None, "", ())
        own = scenario.arm("hardened")
        assert own is not None
        assert (hardened.expect.outcome, hardened.expect.within) == (own.expect.outcome, own.expect.within)
        assert (hardened.expect.exit, hardened.expect.culprits) == (own.expect.exit, own.expect.culprits)
