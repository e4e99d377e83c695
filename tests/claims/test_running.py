"""A claim run for real: what is stated is what the ranks did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaoskit import engine
from chaoskit.claims import reading
from chaoskit.claims.running import ClaimsRequest, run
from chaoskit.claims.values import Answer
from chaoskit.model import Outcome
from chaoskit.reports.claims import json_output, page

CLAIM = """\
name: silent-corruption
told: Another type on one rank ends the job.
source: [a test]
with: {env: {TORCH_NCCL_BLOCKING_WAIT: 1}}
try:
  - scenario: dtypes-differ
    prints: no rank prints this
    expect: {outcome: failed, within: 20s}
"""


@pytest.mark.timeout(400)
def test_a_setting_without_effect_is_found_to_have_none(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(CLAIM)
    report = run(ClaimsRequest((reading.read(file),), runs_dir=tmp_path), engine.run)
    (finding,) = report.findings
    (trial,) = finding.trials
    assert (finding.answer, len(trial.with_it), len(trial.without)) == (Answer.NO_EFFECT, 3, 3)
    assert {one.outcome for one in (*trial.with_it, *trial.without)} == {Outcome.CORRUPTED}
    assert "'no rank prints this' not printed, with and without" in finding.says
    for one in (*trial.with_it, *trial.without):  # the link leads to the evidence
        assert json.loads((one.folder / "verdict.json").read_text())["outcome"] == "corrupted"
    read_back = page.read(json_output.render(report), "x")
    assert [(row.answer, row.says) for row in read_back.rows] == [(finding.answer, finding.says)]
