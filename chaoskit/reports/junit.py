"""The JUnit file of ``--junit``: a test case per arm, written whole or not at all.

The counts agree with the exit code: an arm never looks worse than its scenario's result (a
control that does not do as predicted is no failure of a scenario that is held), and a result
that no arm shows gets a test case of its own.
"""

from __future__ import annotations

import io
import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit.model import Outcome, Result, ScenarioResult, Status, Verdict
from chaoskit.reports import output_file
from chaoskit.reports.judged import is_watch
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
_LONGEST_S = 1e9
_ELEMENT = {Status.FAIL: "failure", Status.INCONCLUSIVE: "error", Status.SKIPPED: "skipped"}


@dataclass(frozen=True, slots=True)
class _Case:
    scenario: str
    name: str
    status: Status
    message: str
    detail: str
    latency_s: float


def render(results: Iterable[ScenarioResult], names: Sequence[str] = ()) -> bytes:
    """Return the file. The same results give the same bytes: no clock, no host name.

    ``names``: of each result, where it is not to be called as the verdicts say (a watched program).
    """
    named = itertools.zip_longest(results, names, fillvalue="")
    cases = [case for result, name in named if not isinstance(result, str) for case in _cases(result, name)]
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


def _cases(result: ScenarioResult, called: str) -> list[_Case]:
    repeated = any(v.repeat != result.verdicts[0].repeat for v in result.verdicts)
    last = {(v.arm, v.repeat): v.attempt for v in sorted(result.verdicts, key=lambda v: v.attempt)}
    counting = [v for v in result.verdicts if v.attempt == last[v.arm, v.repeat]]
    cases = [_arm_case(v, result, repeated, called) for v in counting]
    worst = max((_SEVERITY.index(c.status) for c in cases), default=-1)
    overall = _STATUS_OF[result.result]
    if worst < _SEVERITY.index(overall):
        said = result.reason or words(result.result)
        detail = f"{words(result.result)} on {result.backend}: {result.reason}"
        cases.append(_Case(called or result.name, "scenario", overall, said, detail, 0.0))
    return cases


def _arm_case(verdict: Verdict, result: ScenarioResult, repeated: bool, called: str) -> _Case:
    arm = called if called and is_watch(result) else verdict.arm
    name = f"{arm}[{verdict.repeat}]" if repeated else arm
    limit = _STATUS_OF[result.result]
    status = verdict.status
    if status is not Status.SKIPPED and _SEVERITY.index(status) > _SEVERITY.index(limit):
        status = limit
    message = verdict.reason or outcome_of(verdict)
    return _Case(called or verdict.scenario, name, status, message, _detail(verdict), _took_s(verdict))


def _took_s(verdict: Verdict) -> float:
    """The latency; of what hangs the bound it was given; else when the last rank ended."""
    hangs = verdict.outcome in (Outcome.HUNG, Outcome.OVERDUE)
    ends = (end.ended_s for end in verdict.ranks)
    last_s = max((s for s in ends if s is not None), default=None)
    for known_s in (verdict.latency_s, verdict.bound_s if hangs else None, last_s):
        if known_s is not None and 0 <= known_s < _LONGEST_S:
            return known_s
    return 0.0


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
