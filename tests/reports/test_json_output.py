"""The JSON object, to the letter."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.model import Culprit, RankEnd, Result, ScenarioResult, Status, Verdict, link
from chaoskit.reports import json_output
from chaoskit.reports.judged import Judged
from chaoskit.request import WATCH


def test_the_whole_object(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult], judged: Callable[..., Judged]
) -> None:
    assert json.loads(json_output.render(judged(result(verdict())))) == {
        "schema_version": 1,
        "run_dir": "runs/20260101-7",
        "seed": 7,
        "torch": "2.13.0",
        "scenarios": [{"name": "rank-killed", "backend": "gloo", "result": "held", "reason": ""}],
        "verdicts": [
            {
                "scenario": "rank-killed",
                "arm": "hardened",
                "repeat": 1,
                "attempt": 1,
                "backend": "gloo",
                "profile": "recommended",
                "status": "pass",
                "outcome": "failed",
                "kind": "killed",
                "reason": "",
                "bound_s": 2.0,
                "production_bound_s": 2.0,
                "latency_s": 0.087,
                "culprits": [{"kind": "rank", "id": "1"}],
                "victims": [0, 2, 3],
                "where": "train.py:31",
                "ranks": [
                    {
                        "rank": 0,
                        "exit_code": 82,
                        "ended_s": 0.087,
                        "last": {"op": "all_reduce", "group": "default", "nth": 8},
                    },
                    {"rank": 1, "exit_code": -9, "ended_s": 0.001, "last": None},
                ],
                "rerun": "chaoskit run rank-killed --arm hardened --seed 7",
                "bites": None,
                "ambiguous": False,
                "not_applicable": [],
                "notes": [],
                "stragglers": [],
                "ended_by": [],
                "cause": "",
                "at": None,
                "sureness": None,
                "evidence": [],
            }
        ],
        "summary": {
            "held": 1,
            "not_held": 0,
            "not_needed": 0,
            "inconclusive": 0,
            "skipped": 0,
            "exit_code": 0,
        },
        "wall_s": 1.234,
    }


def test_what_came_later_is_there(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult], judged: Callable[..., Judged]
) -> None:
    full = verdict(
        bites=True, ambiguous=True, not_applicable=("TORCH_NCCL_X",), notes=("barrier #3 → all_reduce #9",),
        stragglers=(Culprit("rank", "2"),), ended_by=("nic_check", "group_kill"),
        culprits=(link("hostB", "hostA"),),
    )  # fmt: skip
    (said,) = json_output.document(judged(result(full)))["verdicts"]
    assert (said["bites"], said["ambiguous"], said["not_applicable"]) == (True, True, ["TORCH_NCCL_X"])
    assert said["notes"] == ["barrier #3 → all_reduce #9"]
    assert said["stragglers"] == [{"kind": "rank", "id": "2"}]
    assert said["ended_by"] == ["nic_check", "group_kill"]
    assert said["culprits"] == [{"kind": "link", "id": "hostA–hostB"}]


@pytest.mark.parametrize(("status", "code"), [("pass", 0), ("fail", 1), ("inconclusive", 2), ("skipped", 2)])
def test_a_watched_program_belongs_to_no_scenario(
    status: str,
    code: int,
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
) -> None:
    seen = verdict(scenario=WATCH, arm=WATCH, status=Status(status))
    document = json_output.document(judged(result(seen, result=Result.HELD)))
    assert document["verdicts"][0]["scenario"] is None
    assert document["scenarios"][0]["name"] is None
    assert document["summary"]["exit_code"] == code
    own = json_output.document(judged(result(verdict(scenario=WATCH))))  # a scenario that is called so
    assert own["verdicts"][0]["scenario"] == WATCH


def test_an_interrupted_run_says_130(
    result: Callable[..., ScenarioResult], judged: Callable[..., Judged]
) -> None:
    summary = json_output.document(judged(result(result=Result.NOT_HELD), interrupted=True))["summary"]
    assert summary["exit_code"] == 130
    assert summary["not_held"] == 1


@settings(deadline=None)
@given(text=st.text(st.characters()), number=st.floats())
def test_hostile_text_and_numbers_still_give_strict_json(
    text: str,
    number: float,
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
) -> None:
    hostile = verdict(
        scenario=text, reason=text, where=text, rerun=text, bound_s=number, latency_s=number,
        culprits=(Culprit("host", text),), ranks=(RankEnd(0, None, number),),
    )  # fmt: skip
    rendered = json_output.render(judged(result(hostile, reason=text)))
    assert rendered.isascii()
    assert rendered.count("\x1b") == 0

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    back = json.loads(rendered, parse_constant=refuse)["verdicts"][0]
    assert back["reason"] == text
    assert back["latency_s"] is None or math.isclose(back["latency_s"], number, abs_tol=0.000501)
