"""Plan and Verdict ↔ JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from typing import Any

import generated
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit import codec
from chaoskit.errors import InvalidInput
from chaoskit.model import (
    Culprit,
    Kind,
    Operation,
    Outcome,
    Plan,
    Profile,
    RankEnd,
    Scenario,
    Status,
    Verdict,
)
from chaoskit.plan import make_plan
from chaoskit.scenario import load_profile, select

slow = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def a_plan(**changes: Any) -> Plan:
    (scenario,) = select(["rank-holds-gil"])
    strict = load_profile("strict")
    return dataclasses.replace(
        make_plan(scenario, "hardened", profile=strict, hardened_profile=strict, seed=7), **changes
    )


@slow
@given(generated.scenarios(), generated.profiles(), st.integers(0, 1 << 40), st.floats(0.001, 3.0))
def test_a_plan_is_read_back_equal(scenario: Scenario, profile: Profile, seed: int, scale: float) -> None:
    for arm in scenario.arms:
        plan = make_plan(
            scenario, arm, profile=profile, hardened_profile=profile, seed=seed, time_scale=scale
        )
        text = codec.dump_plan(plan)
        assert codec.load_plan(text) == plan
        assert codec.dump_plan(codec.load_plan(text)) == text


finite = st.one_of(st.none(), st.floats(0, 1e6))
ops = st.builds(Operation, st.text(max_size=5), st.text(max_size=5), st.integers(1, 99))
ends = st.builds(
    RankEnd,
    st.integers(0, 99),
    st.one_of(st.none(), st.integers(-64, 255)),
    finite,
    st.one_of(st.none(), ops),
)
verdicts = st.builds(
    Verdict,
    scenario=st.text(max_size=5),
    arm=st.text(max_size=5),
    repeat=st.integers(1, 9),
    attempt=st.integers(1, 2),
    backend=st.sampled_from(["gloo", "nccl"]),
    profile=st.text(max_size=5),
    status=st.sampled_from(Status),
    reason=st.text(max_size=20),
    outcome=st.one_of(st.none(), st.sampled_from(Outcome)),
    kind=st.one_of(st.none(), st.sampled_from(Kind)),
    bites=st.one_of(st.none(), st.booleans()),
    bound_s=finite,
    latency_s=finite,
    culprits=st.lists(st.builds(Culprit, st.just("rank"), st.text(max_size=3)), max_size=2).map(tuple),
    victims=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    ranks=st.lists(ends, max_size=3).map(tuple),
    not_applicable=st.lists(st.text(max_size=5), max_size=2).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(verdicts)
def test_a_verdict_is_read_back_equal(verdict: Verdict) -> None:
    assert codec.load_verdict(codec.dump_verdict(verdict)) == verdict


def test_what_json_cannot_say_is_said_otherwise() -> None:
    text = codec.dump_plan(a_plan(deadline_s=math.inf))
    assert "Infinity" not in text
    assert codec.load_plan(text).deadline_s == math.inf


def test_the_type_of_a_setting_survives() -> None:
    workload = dataclasses.replace(
        a_plan().workload, settings=(("a", 1), ("b", 1.0), ("c", True), ("d", "1"))
    )
    found = codec.load_plan(codec.dump_plan(a_plan(workload=workload))).workload
    assert [type(v) for _, v in found.settings] == [int, float, bool, str]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"schema_version": 2}, "schema_version is 2; this chaoskit reads 1"),
        ({"schema_version": True}, "schema_version is True"),
        ({"seed": "x"}, "seed is 'x', expected int"),
        ({"new_field": 1}, "unknown field 'new_field'"),
        ({"ranks": {}}, "ranks is '{}', expected a list"),
        ({"ranks": [{"slot": 0}]}, "ranks[0]"),
        (
            {"injections": [{"fault": {"nothing": {}}, "when": {"kind": "init"}}]},
            "there is no fault 'nothing'",
        ),
        (
            {"injections": [{"fault": {"kill": {"rank": [1], "signal": "x"}}, "when": {"kind": "init"}}]},
            "signal must be",
        ),
        ({"backend": "mpi"}, "backend is 'mpi'"),
    ],
)
def test_a_plan_of_another_kind_is_refused_with_the_reason(change: dict[str, object], part: str) -> None:
    raw = {**json.loads(codec.dump_plan(a_plan())), **change}
    with pytest.raises(InvalidInput) as caught:
        codec.load_plan(json.dumps(raw))
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "5", "null", "{}", "[" * 100_000, '{"schema_version": 1}', '{"schema_version": 1e999}']
)
def test_no_plan_at_all(text: str) -> None:
    with pytest.raises(InvalidInput):
        codec.load_plan(text)
    with pytest.raises(InvalidInput):
        codec.load_verdict(text)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_plan_is_read_or_refused(data: st.DataObject) -> None:
    text = codec.dump_plan(a_plan())
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.text(max_size=2)) + text[at + data.draw(st.integers(0, 9)) :]
    try:
        codec.load_plan(damaged)
    except InvalidInput as error:
        assert len(error.problems) == 1  # noqa: PT017


def test_a_rank_reads_its_plan_without_torch_and_pydantic() -> None:
    code = (
        "import sys; from chaoskit import codec; codec.load_plan(sys.stdin.read());"
        "sys.exit(', '.join({'torch', 'pydantic', 'ruamel', 'click', 'rich'} & sys.modules.keys()) or None)"
    )
    text = codec.dump_plan(a_plan())
    done = subprocess.run([sys.executable, "-c", code], input=text, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
