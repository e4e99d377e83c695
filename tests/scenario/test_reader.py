"""A scenario file's problems: each with its line, a hint, and all at once."""

from __future__ import annotations

import pytest

from chaoskit.errors import InvalidInput, Problem
from chaoskit.faults.kill import Kill
from chaoskit.faults.stall import Stall
from chaoskit.model import (
    Arm,
    Culprit,
    Expectation,
    Injection,
    Kind,
    Known,
    Outcome,
    Phase,
    Result,
    Scenario,
    Span,
    Topology,
    Trigger,
    Workload,
)
from chaoskit.scenario import parse

GOOD = """\
name: good-one
summary: Something happens.
family: process
seen_in: [a/b#1]
tags: [quick]
workload: {all-reduce-loop: {steps: 30, step: 100ms}}
topology: {ranks: 4, backend: gloo}
faults:
  - kill: {rank: 1, signal: SIGKILL}
    when: {op: all_reduce, nth: 8, phase: during}
  - stall: {rank: [0, 2], for: {timeout: collective, times: 2, plus: 1s}}
    when: {step: 3}
arms:
  control:
    profile: torch-defaults
    expect: {outcome: {gloo: failed, nccl: hung}}
  hardened:
    profile: strict
    expect:
      outcome: failed
      within: 2s
      exit: {job: nonzero, 0: 82}
      culprits: [rank 1]
      kind: killed
      says: "rank 1"
known:
  folklore: {result: not_held, outcome: hung, why: blind}
"""


def found(text: str) -> tuple[Problem, ...]:
    with pytest.raises(InvalidInput) as caught:
        parse(text, "f.yaml")
    assert all(p.file == "f.yaml" and p.line > 0 for p in caught.value.problems), caught.value.problems
    return caught.value.problems


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def test_a_file_becomes_the_value_that_one_would_build() -> None:
    failed = (("gloo", Outcome.FAILED), ("nccl", Outcome.FAILED))
    assert parse(GOOD, "f.yaml") == Scenario(
        name="good-one",
        summary="Something happens.",
        family="process",
        seen_in=("a/b#1",),
        tags=("quick",),
        workload=Workload("all-reduce-loop", (("steps", 30), ("step_s", 0.1))),
        topology=Topology(4, "gloo"),
        injections=(
            Injection(Kill((1,), "SIGKILL"), Trigger("collective", "all_reduce", 8, phase=Phase.DURING)),
            Injection(Stall((0, 2), Span(1.0, "collective", 2.0)), Trigger("step", step=3)),
        ),
        arms=(
            Arm("control", "torch-defaults", Expectation((("gloo", Outcome.FAILED), ("nccl", Outcome.HUNG)))),
            Arm(
                "hardened",
                "strict",
                Expectation(
                    failed, Span(2.0), "nonzero", ((0, 82),), (Culprit("rank", "1"),), Kind.KILLED, "rank 1"
                ),
            ),
        ),
        known=(Known("folklore", "gloo", Result.NOT_HELD, Outcome.HUNG, "blind"),),
        file="f.yaml",
    )


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("init", Trigger("init")),
        ("{after: 500ms}", Trigger("after", after_s=0.5)),
        (
            "{call: torch.save, nth: 2, phase: after}",
            Trigger("call", nth=2, phase=Phase.AFTER, call="torch.save"),
        ),
        ("{step: 5, op: barrier, nth: 2}", Trigger("collective", "barrier", 2, step=5)),
        ("{op: all_reduce, group: default}", Trigger("collective", "all_reduce")),
        ("{forward: layer.2, nth: 3}", Trigger("forward", nth=3, module="layer.2")),
        ("{backward: Linear, phase: after}", Trigger("backward", phase=Phase.AFTER, module="Linear")),
        ("{loader: any, nth: 5}", Trigger("loader", nth=5)),
        ('{write: "{scratch}/*.pt", nth: 2}', Trigger("write", nth=2, path="{scratch}/*.pt")),
    ],
)
def test_every_form_of_a_trigger(text: str, trigger: Trigger) -> None:
    scenario = parse(changed("{step: 3}", text), "f.yaml")
    assert scenario.injections[1].when == trigger


def test_launch_may_be_left_out_where_nothing_else_is_possible() -> None:
    text = changed(
        "  - stall: {rank: [0, 2], for: {timeout: collective, times: 2, plus: 1s}}\n    when: {step: 3}\n",
        "  - port-taken:\n",
    )
    assert parse(text, "f.yaml").injections[1].when == Trigger("launch")


CASES = [
    ("name: good-one", "nme: good-one", 1, "unknown key `nme`", "did you mean name?"),
    ("name: good-one", "name: Good One", 1, "name must be a name", "small letters"),
    ("name: good-one", "name: ../x", 1, "name must be a name", "small letters"),
    ("summary: Something happens.", "summary: 5", 2, "summary must be a text, is 5", "quotes"),
    ("seen_in: [a/b#1]", "seen_in: a/b#1", 4, "seen_in must be a list", "[one, two]"),
    ("tags: [quick]", "tags: [1]", 5, "tags item 1 must be a name", ""),
    (
        "{all-reduce-loop: {steps: 30, step: 100ms}}",
        "all-reduce",
        6,
        "there is no workload 'all-reduce'",
        "did you mean all-reduce-loop?",
    ),
    ("step: 100ms", "stps: 3", 6, "unknown setting `stps`", "did you mean steps?"),
    ("steps: 30", "steps: many", 6, "steps must be a whole number", ""),
    ("steps: 30", "steps: 0", 6, "steps must be from 1", ""),
    ("step: 100ms", "step: quick", 6, "step must be a duration", "150ms"),
    ("ranks: 4", "ranks: four", 7, "topology.ranks must be a whole number", ""),
    ("ranks: 4", "ranks: 0", 7, "topology.ranks must be from 1 to 4096, is 0", ""),
    (
        "backend: gloo",
        "backend: glo",
        7,
        "topology.backend must be one of gloo, nccl, is 'glo'",
        "did you mean gloo?",
    ),
    ("kill:", "kil:", 9, "there is no fault `kil`", "did you mean kill?"),
    ("{rank: 1, signal: SIGKILL}", "{rank: 9}", 9, "rank 9 does not exist", "ranks 0 to 3"),
    ("{rank: 1, signal: SIGKILL}", "{}", 9, "faults[0].kill: missing key `rank`", ""),
    ("{rank: 1, signal: SIGKILL}", "1", 9, "faults[0].kill must be a mapping, is 1", ""),
    ("signal: SIGKILL", "signal: SIGSTOP", 9, "signal must be one that ends a process", ""),
    ("signal: SIGKILL", "sgnal: SIGKILL", 9, "unknown key `sgnal`", "did you mean signal?"),
    ("rank: 1, signal", "rank: -1, signal", 9, "rank -1 does not exist", "count from 0"),
    ("nth: 8", "nth: 0", 10, "faults[0].when.nth must be from 1", ""),
    ("nth: 8", "nth: 1_000", 10, "underscores", "quotes"),
    ("phase: during", "phase: amid", 10, "phase must be one of before, during, after", ""),
    ("op: all_reduce, nth: 8, phase: during", "nth: 8", 10, "names no moment", "op, step, call, forward"),
    ("op: all_reduce, nth: 8", "op: all_reduce, call: a.b, nth: 8", 10, "names two moments: op and call", ""),
    ("{op: all_reduce, nth: 8, phase: during}", "launch", 10, "kill can never fire at launch", "it accepts"),
    (
        "{op: all_reduce, nth: 8, phase: during}",
        "lanch",
        10,
        "must be a mapping, init or launch",
        "did you mean launch?",
    ),
    ("{step: 3}", "{step: 31}", 12, "step 31 never comes", "up to 30"),
    ("{step: 3}", "{step: 3, nth: 2}", 12, "`nth` has no meaning beside `step`", "remove"),
    ("{step: 3}", "{call: save}", 12, "names no module", "torch.save"),
    ("{step: 3}", "{call: torch.save, phase: during}", 12, "no phase during", "before or after"),
    ("{step: 3}", "{forward: layer, phase: during}", 12, "a forward has no phase during", "before or after"),
    ("{step: 3}", "{loader: any, phase: during}", 12, "a batch (loader) has no phase during", ""),
    ("{step: 3}", "{backward: a..b}", 12, "'a..b' is no dotted name", "layer.2"),
    ("{step: 3}", "{loader: 5}", 12, "loader must be any, is 5", "{loader: any, nth: 5}"),
    ("{step: 3}", "{write: ckpt/}", 12, "'ckpt/' names no file", "*.pt"),
    ("{step: 3}", "{write: x.pt, phase: after}", 12, "`phase` has no meaning beside `write`", "remove"),
    ("{step: 3}", "{write: x.pt, loader: any}", 12, "names two moments: loader and write", ""),
    (
        "for: {timeout: collective, times: 2, plus: 1s}",
        "for: {timeout: colective}",
        11,
        "timeout must be one of",
        "collective",
    ),
    (
        "for: {timeout: collective, times: 2, plus: 1s}",
        "for: soon",
        11,
        "for must be a duration, is 'soon'",
        "forever",
    ),
    ("  control:", "  contrl:", 14, "the control arm is missing", "is contrl meant?"),
    (
        "profile: torch-defaults",
        "profile: torch-default",
        15,
        "there is no profile 'torch-default'",
        "did you mean torch-defaults?",
    ),
    ("profile: torch-defaults", "profile: strict", 15, "the control arm has guards", "torch-defaults"),
    ("profile: torch-defaults", "profile: ./missing.yaml", 1, "no such file", ""),
    ("{gloo: failed, nccl: hung}", "{gloo: failed, mpi: hung}", 16, "unknown backend 'mpi'", ""),
    ("{gloo: failed, nccl: hung}", "{nccl: hung}", 16, "expects nothing on gloo", "backends: [nccl]"),
    ("{gloo: failed, nccl: hung}", "crashed", 16, "outcome must be one of", ""),
    ("  hardened:", "  hardend:", 17, "the hardened arm is missing", "is hardend meant?"),
    ("      within: 2s", "      within: 2 parsecs", 21, "unknown unit 'parsecs'", ""),
    ("      within: 2s", "      withn: 2s", 21, "unknown key `withn`", "did you mean within?"),
    ("exit: {job: nonzero, 0: 82}", "exit: maybe", 22, "exit must be zero, nonzero or a mapping", ""),
    ("exit: {job: nonzero, 0: 82}", "exit: {7: 82}", 22, "exit names rank 7", "ranks 0 to 3"),
    ("exit: {job: nonzero, 0: 82}", "exit: {0: many}", 22, "rank 0 must have an exit code", ""),
    ("culprits: [rank 1]", "culprits: [rank 4]", 23, "culprit rank 4 does not exist", "ranks 0 to 3"),
    ("culprits: [rank 1]", "culprits: [1]", 23, "item 1 must be a culprit, is 1", "write 'rank 1'"),
    ("culprits: [rank 1]", "culprits: rank 1", 23, "culprits must be a list", ""),
    ("kind: killed", "kind: kiled", 24, "kind must be one of", "did you mean killed?"),
    ("folklore: {result", "folklor: {result", 27, "no built-in profile 'folklor'", "did you mean folklore?"),
    ("result: not_held", "result: lost", 27, "known.folklore.result must be one of", ""),
]


@pytest.mark.parametrize(
    ("old", "new", "line", "message", "hint"), CASES, ids=[f"{c[2]}-{c[1][:30]}" for c in CASES]
)
def test_each_mistake_is_one_problem_at_its_line(
    old: str, new: str, line: int, message: str, hint: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(changed(old, new), "f.yaml")
    assert len(caught.value.problems) == 1, str(caught.value)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert hint in problem.hint
    if "missing.yaml" not in new:
        assert (problem.file, problem.line) == ("f.yaml", line)


def test_all_problems_at_once_in_the_order_of_the_file() -> None:
    text = GOOD
    for old, new in [
        ("family: process", "famly: process"),
        ("steps: 30", "steps: x"),
        ("ranks: 4", "ranks: x"),
        ("nth: 8", "nth: 0"),
        ("for: {timeout: collective, times: 2, plus: 1s}", "fr: 1s"),
        ("{step: 3}", "{}"),
        ("within: 2s", "within: x"),
        ("result: not_held", "result: x"),
    ]:
        text = text.replace(old, new)
    assert [p.line for p in found(text)] == [3, 6, 7, 10, 11, 12, 21, 27]


def test_what_is_good_in_a_broken_file_is_checked_all_the_same() -> None:
    text = GOOD
    for old, new in [
        ("name: good-one", "name: Good One"),
        ("backend: gloo", "backend: mpi"),
        ("{rank: 1, signal: SIGKILL}", "{rank: 7, sgnal: SIGKILL}"),
        ("nth: 8", "nth: 0"),
        ("rank: [0, 2], for", "rank: [0, 9], for"),
        ("{step: 3}", "{step: 31}"),
        ("profile: torch-defaults", "profile: torch-default"),
        ("{gloo: failed, nccl: hung}", "dead"),
        ("culprits: [rank 1]", "culprits: [rank 5]"),
        ("kind: killed", "kind: kiled"),
    ]:
        text = text.replace(old, new)
    said = [(p.line, p.message) for p in found(text)]
    assert [line for line, _ in said] == [1, 7, 9, 9, 10, 11, 12, 15, 16, 23, 24]
    assert any("rank 7 does not exist" in message for _, message in said)
    assert any("rank 5 does not exist" in message for _, message in said)


@pytest.mark.parametrize("text", ["[]", "5", "text", "{}", "a: b", "- a", "true"])
def test_other_yaml_is_refused(text: str) -> None:
    assert found(text)


def test_a_problem_of_a_profile_is_told_once_with_its_own_file(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "mine.yaml").write_text("name: mine\nguards: {timeouts: {collectiv: 5m}}\n")
    text = changed("profile: strict", "profile: ./mine.yaml")
    with pytest.raises(InvalidInput) as caught:
        parse(text, str(folder / "f.yaml"))
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(folder / "mine.yaml"), 2)
    assert problem.hint == "did you mean collective?"
