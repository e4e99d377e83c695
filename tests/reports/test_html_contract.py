"""The contract line by line, and stacks side by side."""

from __future__ import annotations

import dataclasses
from typing import Any

import html_arms
import pytest

from chaoskit.evidence.findings import RankFindings, ThreadStack
from chaoskit.history import Event, GuardFired, History, LauncherEnded, Leftover
from chaoskit.judge import contract
from chaoskit.model import Contract, Culprit, Kind, Outcome, Plan, RankEnd, Span, Verdict
from chaoskit.reports.html import promises, stacks

KEPT = dataclasses.replace(
    html_arms.VERDICT,
    outcome=Outcome.FAILED,
    latency_s=0.5,
    ranks=tuple(RankEnd(r, 84 if r else -9, 0.5) for r in range(4)),
)


def broken(contract: Contract, verdict: Verdict = KEPT, events: tuple[Event, ...] = ()) -> list[str]:
    plan: Plan = html_arms.plan(contract=contract, hardened_contract=contract)
    return [p.what for p in promises.lines(plan, contract, verdict, events) if not p.kept]


ALL = Contract(
    Outcome.FAILED,
    Span(2.0),
    "nonzero",
    ((0, -9),),
    (Culprit("rank", "1"),),
    Kind.FROZEN,
    "no progress",
)
SAID = (GuardFired(1.0, 0, "watchdog", 84, "there is no progress here"),)


def test_each_promise_has_a_line_and_kept_ones_are_kept() -> None:
    found = promises.lines(html_arms.plan(contract=ALL, hardened_contract=ALL), ALL, KEPT, SAID)
    assert [p.what for p in found] == [
        "outcome", "within", "exit of the job", "exit code of rank 0", "culprits", "kind", "a guard says",
        "left behind",
    ]  # fmt: skip
    assert all(p.kept for p in found)


@pytest.mark.parametrize(
    ("line", "changes", "events"),
    [
        ("outcome", {"outcome": Outcome.HUNG}, SAID),
        ("within", {"latency_s": 2.001}, SAID),
        ("within", {"latency_s": None}, SAID),
        ("exit of the job", {}, (*SAID, LauncherEnded(2.0, -1, 0))),
        ("culprits", {"culprits": ()}, SAID),
        ("culprits", {"ambiguous": True}, SAID),
        ("kind", {"kind": None}, SAID),
        ("a guard says", {}, ()),
        ("left behind", {}, (*SAID, Leftover(3.0, -1, 77, "sleep"))),
    ],
)
def test_a_broken_promise_is_its_line_alone(
    line: str, changes: dict[str, object], events: tuple[Event, ...]
) -> None:
    assert broken(ALL, dataclasses.replace(KEPT, **changes), events) == [line]  # type: ignore[arg-type]


def test_exit_codes_are_those_of_each_rank() -> None:
    assert broken(dataclasses.replace(ALL, exit_codes=((0, 1), (9, 0))), events=SAID) == [
        "exit code of rank 0",
        "exit code of rank 9",
    ]
    alive = dataclasses.replace(KEPT, ranks=(RankEnd(0, 0, 1.0), RankEnd(1, None, None)))
    assert "exit of the job" in broken(dataclasses.replace(ALL, exit="zero", exit_codes=()), alive, SAID)


def test_a_bound_that_the_profile_does_not_set_is_broken() -> None:
    following = dataclasses.replace(ALL, within=Span(1.0, "collective"))
    plan = html_arms.plan(contract=following, hardened_contract=ALL, bound_s=None)
    (found,) = [p for p in promises.lines(plan, following, KEPT, SAID) if p.what == "within"]
    assert found.kept is False
    assert "sets no collective timeout" in found.found


def test_of_a_fault_that_did_not_fire_nothing_else_is_said() -> None:
    found = promises.lines(
        html_arms.plan(), ALL, dataclasses.replace(KEPT, outcome=Outcome.NOT_INJECTED), SAID
    )
    assert [(p.what, p.kept) for p in found] == [("injection", None)]


@pytest.mark.parametrize(
    "promised",
    [
        html_arms.PROMISED,
        dataclasses.replace(html_arms.PROMISED, outcome=Outcome.HUNG, within=None, exit=None),
        dataclasses.replace(ALL, exit="zero", culprits=()),
        dataclasses.replace(ALL, within=Span(1.0, "collective"), exit_codes=((0, 84), (1, 3))),
    ],
)
def test_it_breaks_what_the_judge_says_is_broken(promised: Contract, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, ...]] = []
    breached = contract.breached

    def spy(*given: Any) -> tuple[str, ...]:
        said.append(breached(*given))
        return said[-1]

    monkeypatch.setattr(contract, "breached", spy)
    events = (*html_arms.events(), Leftover(99.0, -1, 5, "sleep"))
    plan = html_arms.plan(contract=promised, hardened_contract=html_arms.PROMISED)
    verdict = contract.judge(plan, History.of(events))
    lines = promises.lines(plan, promised, verdict, events)
    assert len(said[0]) == sum(p.kept is False for p in lines)


# ---------------------------------------------------------------- stacks


def rank(slot: int, *frames: str, state: str = "S") -> RankFindings:
    return RankFindings(
        slot, state, (ThreadStack("MainThread", 1, True, frames),) if frames else (), "py-spy"
    )


def test_equal_stacks_are_one_column_and_common_frames_are_apart() -> None:
    outer = ("step (a/train.py:3)", "main (a/train.py:9)")
    found = stacks.compare(
        [rank(n, "wait (gloo)", *outer) for n in (0, 2, 3)]
        + [rank(1, "load (b.py:1)", "next (b.py:2)", *outer)],
        {n: n + 10 for n in range(4)},
        frozenset({1}),
        frozenset({"a/train.py:3"}),
    )
    assert [(c.who, c.count, c.culprits) for c in found.columns] == [
        ("rank 11", 1, "rank 11"),
        ("ranks 10, 12, 13", 3, ""),
    ]
    assert [f.function for f in found.columns[0].frames] == ["load", "next"]
    assert [(f.function, f.own) for f in found.outer] == [("step", True), ("main", False)]


def test_one_stack_is_not_folded() -> None:
    found = stacks.compare([rank(0, "a (x:1)", "b (x:2)")], {}, frozenset(), frozenset())
    assert found.outer == () == found.inner
    assert len(found.columns[0].frames) == 2


def test_a_stack_that_is_part_of_another_is_told_apart() -> None:
    found = stacks.compare([rank(0, "a (x:1)", "b (x:2)"), rank(1, "a (x:1)")], {}, frozenset(), frozenset())
    assert [f.function for f in found.inner] == ["a"]
    assert sorted([f.function for f in c.frames] for c in found.columns) == [[], ["b"]]


def test_ranks_without_a_stack_are_named() -> None:
    found = stacks.compare([rank(0, "a (x:1)"), rank(1)], {}, frozenset(), frozenset())
    assert found.without == "rank 1"


@pytest.mark.parametrize(
    ("text", "function", "place"),
    [
        ("all_reduce (/v/site-packages/torch/d.py:3)", "all_reduce", "torch/d.py:3"),
        ("main (/job/train.py:31)", "main", "job/train.py:31"),
        ("f.<locals>.g (<string>:1)", "f.<locals>.g", "<string>:1"),
        ("poll (libc.so.6)", "poll", "libc.so.6"),
        ("odd (a (b).py:3)", "odd", "a (b).py:3"),
        ("nothing like a frame", "nothing like a frame", ""),
        ("", "", ""),
    ],
)
def test_a_frame_is_taken_apart(text: str, function: str, place: str) -> None:
    frame = stacks._frame(text, frozenset())
    assert (frame.function, frame.place) == (function, place)
