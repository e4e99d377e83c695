"""The JUnit file: parsable whatever it is told, whole or absent, in agreement with the exit code."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.errors import ExitCode
from chaoskit.model import Operation, Outcome, RankEnd, Result, ScenarioResult, Status, Verdict, link
from chaoskit.reports import junit
from chaoskit.reports.exit_code import exit_code
from chaoskit.verdict import Sureness


def cases(results: list[ScenarioResult]) -> dict[str, str]:
    """Return name → the element that says how it went ('' where it passed)."""
    said = {}
    for case in ET.fromstring(junit.render(results)).iter("testcase"):
        tags = [child.tag for child in case if child.tag != "system-out"]
        said[f"{case.get('classname')}/{case.get('name')}"] = tags[0] if tags else ""
    return said


def test_one_case_per_arm(verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]) -> None:
    control = verdict(arm="control", profile="torch-defaults")
    failed = verdict(status=Status.FAIL, outcome=Outcome.HUNG, latency_s=None, reason="rank 2 never ended")
    root = ET.fromstring(junit.render([result(control, failed, result=Result.NOT_HELD, reason="hung")]))
    suite = root.find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    failure = root.find(".//testcase[@name='hardened']/failure")
    assert failure is not None
    assert failure.get("message") == "rank 2 never ended"
    assert failure.text is not None
    for fact in ("culprit: rank 1 killed", "outcome: hung", "where: train.py:31", "rerun: chaoskit run"):
        assert fact in failure.text


def test_a_production_bound_is_said_to_be_extrapolated_and_a_link_is_a_culprit(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    one = verdict(culprits=(link("hostA", "hostB"),), production_bound_s=602.0, ended_by=("nic_check",))
    (case,) = ET.fromstring(junit.render([result(one)])).iter("system-out")
    assert case.text is not None
    assert "culprit: link hostA–hostB killed" in case.text
    assert "production bound: in production ~602 s (extrapolated, not measured)" in case.text
    assert "ended by: nic_check" in case.text


def test_the_elements_follow_the_status(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    def of(status: Status, outcome: Result, name: str) -> ScenarioResult:
        return result(verdict(scenario=name, status=status), result=outcome)

    assert cases(
        [
            of(Status.FAIL, Result.NOT_HELD, "a"),
            of(Status.INCONCLUSIVE, Result.INCONCLUSIVE, "b"),
            of(Status.SKIPPED, Result.SKIPPED, "c"),
            of(Status.PASS, Result.NOT_NEEDED, "d"),
        ]
    ) == {"a/hardened": "failure", "b/hardened": "error", "c/hardened": "skipped", "d/hardened": ""}


def test_an_arm_looks_no_worse_than_its_scenario(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    control = verdict(arm="control", status=Status.FAIL)
    assert cases([result(control, verdict(), result=Result.NOT_NEEDED)])["rank-killed/control"] == ""
    said = cases([result(control, verdict(), result=Result.INCONCLUSIVE)])
    assert said["rank-killed/control"] == "error"


def test_a_result_that_no_arm_shows_has_its_own_case(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    said = cases([result(verdict(), result=Result.INCONCLUSIVE, reason="the control was not run")])
    assert said == {"rank-killed/hardened": "", "rank-killed/scenario": "error"}
    assert cases([result(result=Result.SKIPPED, reason="no cgroup")]) == {"rank-killed/scenario": "skipped"}


@settings(deadline=None)
@given(
    shapes=st.lists(
        st.tuples(st.sampled_from(Result), st.lists(st.sampled_from(Status), max_size=3)), max_size=4
    )
)
def test_counts_agree_with_the_exit_code(
    shapes: list[tuple[Result, list[Status]]],
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
) -> None:
    results = [
        result(*(verdict(arm=f"arm{i}", status=s) for i, s in enumerate(statuses)), result=r)
        for r, statuses in shapes
    ]
    root = ET.fromstring(junit.render(results))
    failures, errors = int(root.get("failures", "")), int(root.get("errors", ""))
    code = exit_code(results)
    assert (failures > 0) == (code is ExitCode.NOT_HELD)
    if code is ExitCode.OK:
        assert errors == 0


def test_repeats_have_their_number(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    assert list(cases([result(verdict(repeat=1), verdict(repeat=2))])) == [
        "rank-killed/hardened[1]",
        "rank-killed/hardened[2]",
    ]


def test_an_attempt_that_was_followed_by_another_does_not_count(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    first = verdict(status=Status.FAIL, attempt=1)
    assert cases([result(first, verdict(attempt=2))]) == {"rank-killed/hardened": ""}


@settings(deadline=None)
@given(text=st.text(st.characters()), number=st.floats())
def test_hostile_text_parses_and_is_deterministic(
    text: str, number: float, verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    hostile = verdict(scenario=text, arm=text, reason=text, status=Status.FAIL, where=text, latency_s=number)
    results = [result(hostile, result=Result.NOT_HELD, reason=text)]
    rendered = junit.render(results)
    assert rendered == junit.render(results)
    assert ET.fromstring(rendered).get("failures") == "1"


def test_text_keeps_what_xml_allows(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    failed = verdict(status=Status.FAIL, reason='a <b> & "c" \x1b[31m\x00 漢 ]]>')
    root = ET.fromstring(junit.render([result(failed, result=Result.NOT_HELD)]))
    element = root.find(".//failure")
    assert element is not None
    assert element.get("message") == 'a <b> & "c" [31m 漢 ]]>'


def test_who_did_it_and_how_that_is_known(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    failed = verdict(
        status=Status.FAIL, cause="rank 1 was killed by SIGKILL in all_reduce #8", sureness=Sureness.LIKELY,
        at=Operation("all_reduce", "tp", 8), evidence=("its process ended with SIGKILL", "no other did"),
    )  # fmt: skip
    (failure,) = ET.fromstring(junit.render([result(failed, result=Result.NOT_HELD)])).iter("failure")
    assert failure.text is not None
    assert failure.text.splitlines()[2:9] == [
        "culprit: rank 1 (likely) killed",
        "cause (likely): rank 1 was killed by SIGKILL in all_reduce #8",
        "evidence: its process ended with SIGKILL",
        "evidence: no other did",
        "operation: all_reduce #8 of tp",
        "where: train.py:31",
        "suffered from it: ranks 0, 2, 3",
    ]


def test_a_watched_program_has_its_name_and_what_hangs_its_time(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    hung = verdict(
        scenario="watch", arm="watch", status=Status.FAIL, outcome=Outcome.HUNG, latency_s=None, bound_s=None
    )
    hung = dataclasses.replace(hung, ranks=(RankEnd(0, None, 8.5), RankEnd(1, None, 9.25)))
    (case,) = ET.fromstring(junit.render([result(hung, result=Result.NOT_HELD)], ["loop.py"])).iter(
        "testcase"
    )
    assert (case.get("classname"), case.get("name"), case.get("time")) == ("loop.py", "loop.py", "9.250")
    bound = dataclasses.replace(hung, bound_s=5.0)
    (case,) = ET.fromstring(junit.render([result(bound, result=Result.NOT_HELD)])).iter("testcase")
    assert case.get("time") == "5.000"
