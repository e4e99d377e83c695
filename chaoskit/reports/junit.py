"""The JUnit file of ``--junit``: a test case per arm, written whole or not at all.

The counts agree with the exit code: an arm never looks worse than its scenario's result (a
control that does not do as predicted is no failure of a scenario that is held), and a result
that no arm shows gets a test case of its own.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chaoskit.model import Result, ScenarioResult, Status, Verdict
from chaoskit.reports import output_file
from chaoskit.reports.wording import facts_of, outcome_of, words

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SEVERITY = (Status.PASS, Status.SKIPPED, Status.INCONCLUSIVE, Status.FAIL)
_STATUS_OF = {
    Result.HELD: Status.PASS,
    Result.NOT_NEEDED: Status.PASS,
    Result.SKIPPED: Status.SKIPPED,
    Result.INCONCLUSIVE: Status.INCONCLUSIVE,
    Result.NOT_HELD: Status.FAIL,
}
_ELEMENT = {Status.FAIL: "failure", Status.INCONCLUSIVE: "error", Status.SKIPPED: "skipped"}


@dataclass(frozen=True, slots=True)
class _Case:
    scenario: str
    name: str
    status: Status
    message: str
    detail: str
    latency_s: float


def render(results: Iterable[ScenarioResult]) -> bytes:
    """Return the file. The same results give the same bytes: no clock, no host name."""
    cases = [case for result in results for case in _cases(result)]
    totals = {
        "tests": str(len(cases)),
        "failures": str(_count(cases, Status.FAIL)),
        "errors": str(_count(cases, Status.INCONCLUSIVE)),
        "skipped": str(_count(cases, Status.SKIPPED)),
        "time": f"{sum(c.latency_s for c in cases):.3f}",
    }
    root = ET.Element("testsuites", {"name": "chaoskit", **totals})
    suite = ET.SubElement(root, "testsuite", {"name": "chaoskit", **totals})
    for case in cases:
        _add(suite, case)
    ET.indent(root)
    buffer = io.BytesIO()
    ET.ElementTree(root).write(buffer, encoding="utf-8", xml_declaration=True)
    return buffer.getvalue() + b"\n"


def _count(cases: list[_Case], status: Status) -> int:
    return sum(c.status is status for c in cases)


def _add(suite: ET.Element, case: _Case) -> None:
    where = {"classname": _xml(case.scenario), "name": _xml(case.name), "time": f"{case.latency_s:.3f}"}
    element = ET.SubElement(suite, "testcase", where)
    if case.status in _ELEMENT:
        inner = ET.SubElement(element, _ELEMENT[case.status], {"message": _xml(case.message)})
        inner.text = _xml(case.detail)
    else:
        ET.SubElement(element, "system-out").text = _xml(case.detail)


def _cases(result: ScenarioResult) -> list[_Case]:
    repeated = any(v.repeat != result.verdicts[0].repeat for v in result.verdicts)
    last = {(v.arm, v.repeat): v.attempt for v in sorted(result.verdicts, key=lambda v: v.attempt)}
    counting = [v for v in result.verdicts if v.attempt == last[v.arm, v.repeat]]
    cases = [_arm_case(v, result, repeated) for v in counting]
    worst = max((_SEVERITY.index(c.status) for c in cases), default=-1)
    overall = _STATUS_OF[result.result]
    if worst < _SEVERITY.index(overall):
        said = result.reason or words(result.result)
        detail = f"{words(result.result)} on {result.backend}: {result.reason}"
        cases.append(_Case(result.name, "scenario", overall, said, detail, 0.0))
    return cases


def _arm_case(verdict: Verdict, result: ScenarioResult, repeated: bool) -> _Case:
    name = f"{verdict.arm}[{verdict.repeat}]" if repeated else verdict.arm
    limit = _STATUS_OF[result.result]
    status = verdict.status
    if status is not Status.SKIPPED and _SEVERITY.index(status) > _SEVERITY.index(limit):
        status = limit
    message = verdict.reason or outcome_of(verdict)
    latency = verdict.latency_s if verdict.latency_s is not None and 0 <= verdict.latency_s < 1e9 else 0.0
    return _Case(verdict.scenario, name, status, message, _detail(verdict), latency)


def _detail(verdict: Verdict) -> str:
    return "\n".join(f"{label}: {value}" for label, value in facts_of(verdict))


def _xml(text: str) -> str:
    """Return ``text`` without the characters that no XML document may contain."""
    return _NOT_XML.sub("", text)


def write(path: Path, results: Iterable[ScenarioResult]) -> None:
    """Write the report. A reader sees the old file or the new one, never a part. Raises OSError."""
    content = render(results)
    with output_file.replaced(path) as file:
        file.write(content)
