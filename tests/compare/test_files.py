"""What a comparison reads of a run beside its verdicts."""

from __future__ import annotations

from pathlib import Path

from chaoskit.agenda import plan_to_watch
from chaoskit.compare import files
from chaoskit.compare.comparison import compare
from chaoskit.errors import InvalidInput
from chaoskit.model import Plan, Result, ScenarioResult, Status, Verdict, Workload
from chaoskit.request import WATCH, WatchRequest


def watched(run_dir: Path, program: str, status: Status) -> files.Side:
    folder = run_dir / WATCH / WATCH
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(program)
    (run_dir / "run.json").write_text("{}")

    def load(text: str) -> Plan:
        if text != program:
            raise InvalidInput([])
        workload = Workload(program, kind="script", target=f"/{program}")
        return plan_to_watch(WatchRequest(workload, 2), 1, None)

    verdict = Verdict(WATCH, WATCH, 1, 1, "gloo", "torch-defaults", status, "")
    side, _ = files.read(run_dir, (ScenarioResult(WATCH, "gloo", Result.HELD, "", (verdict,)),), load)
    return side


def test_two_programs_that_were_watched_are_not_compared_with_each_other(tmp_path: Path) -> None:
    passed = watched(tmp_path / "a", "one.py", Status.PASS)
    assert not compare(passed, watched(tmp_path / "b", "other.py", Status.FAIL)).broke
    assert compare(passed, watched(tmp_path / "c", "one.py", Status.FAIL)).broke
