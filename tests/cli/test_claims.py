"""``chaoskit claims``: options, files, exit codes; nothing is started."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from chaoskit.claims.values import Answer
from chaoskit.cli import main
from chaoskit.cli.claims import Options, execute, exit_code, read
from chaoskit.errors import ExitCode, InvalidInput
from chaoskit.model import Outcome, RankEnd, ScenarioResult, Status, Verdict
from chaoskit.reports.claims import page
from chaoskit.request import Observer, RunRequest, RunResult

Engine = Callable[[RunRequest, Observer | None], RunResult]


def engine_that_shows(with_it: Outcome, without: Outcome = Outcome.HUNG, *, cut: bool = False) -> Engine:
    """An engine that starts nothing and has seen these outcomes in every arm."""

    def run(request: RunRequest, observer: Observer | None) -> RunResult:
        results = []
        for scenario in request.scenarios:
            verdicts = tuple(
                _verdict(scenario.name, arm.name, without if arm.name == "control" else with_it, repeat)
                for arm in scenario.arms
                for repeat in range(1, request.repeat + 1)
            )
            results.append(ScenarioResult(scenario.name, "gloo", "held", "", verdicts))  # type: ignore[arg-type]
        return RunResult(request.runs_dir / "r", 7, "2.13.0", tuple(results), 1.0, cut)

    return run


def _verdict(scenario: str, arm: str, outcome: Outcome, repeat: int) -> Verdict:
    ended = outcome is not Outcome.HUNG
    ends = tuple(RankEnd(rank, 1 if ended else None, 3.0 if ended else None) for rank in range(4))
    latency_s = 3.0 if ended else None
    return Verdict(
        scenario, arm, repeat, 1, "gloo", arm, Status.PASS, "", outcome, latency_s=latency_s, ranks=ends
    )


def told(tmp_path: Path, engine: Engine, **more: object) -> tuple[ExitCode, str]:
    given = {"backends": ("gloo",), "runs_dir": str(tmp_path), "names": ("timeout-ends-a-hang",), **more}
    out = io.StringIO()
    code = execute(read(Options(**given)), engine, out, io.StringIO())  # type: ignore[arg-type]
    return code, out.getvalue()


def test_a_claim_that_is_not_true_is_an_answer_too(tmp_path: Path) -> None:
    assert told(tmp_path, engine_that_shows(Outcome.FAILED))[0] is ExitCode.OK
    code, text = told(tmp_path, engine_that_shows(Outcome.HUNG))
    assert code is ExitCode.OK
    assert "timeout-ends-a-hang: no effect" in text


def test_one_run_is_no_answer(tmp_path: Path) -> None:
    code, text = told(tmp_path, engine_that_shows(Outcome.FAILED), repeat="1")
    assert code is ExitCode.INCONCLUSIVE
    assert "fewer than 3 runs are no answer" in text


def test_an_interrupted_run_is_told_and_says_so(tmp_path: Path) -> None:
    code, text = told(tmp_path, engine_that_shows(Outcome.FAILED, cut=True))
    assert code is ExitCode.INTERRUPTED
    assert "interrupted" in text


def test_files_hold_what_stdout_says(tmp_path: Path) -> None:
    target, table = tmp_path / "a" / "x.json", tmp_path / "x.md"
    _, out = told(
        tmp_path, engine_that_shows(Outcome.FAILED), form="json", json_file=str(target), markdown=str(table)
    )
    assert target.read_text() == out
    (row,) = json.loads(out)["claims"]
    assert (row["answer"], row["setting"]) == ("true", ["folklore_init(timeout_s=3.0)"])
    assert row["trials"][0]["with"][0]["exits"] == {"0": 1, "2": 1, "3": 1}
    assert "| timeout-ends-a-hang |" in table.read_text()


def test_an_answer_that_changed_since_is_exit_code_1(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    told(tmp_path, engine_that_shows(Outcome.FAILED), json_file=str(before))
    code, text = told(tmp_path, engine_that_shows(Outcome.HUNG), against=str(before))
    assert code is ExitCode.NOT_HELD
    assert "changed: timeout-ends-a-hang [gloo]: true on torch 2.13.0, no effect now" in text
    assert told(tmp_path, engine_that_shows(Outcome.FAILED), against=str(before))[0] is ExitCode.OK


def test_nothing_to_compare_with_is_no_answer(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    told(tmp_path, engine_that_shows(Outcome.FAILED), json_file=str(before), names=("group-kill",))
    code, text = told(tmp_path, engine_that_shows(Outcome.FAILED), against=str(before))
    assert code is ExitCode.INCONCLUSIVE
    assert "nothing could be compared" in text


def test_too_few_runs_are_told_before_they_run(tmp_path: Path) -> None:
    def engine(*_: object) -> RunResult:
        raise KeyboardInterrupt

    err = io.StringIO()
    options = Options(names=("group-kill",), backends=("gloo",), runs_dir=str(tmp_path), repeat="2")
    with pytest.raises(KeyboardInterrupt):
        execute(read(options), engine, io.StringIO(), err)
    assert "--repeat 2: fewer than 3 runs" in err.getvalue()


def test_nothing_that_could_be_run_is_no_answer() -> None:
    rows = (page.Row("a", "nccl", "", (), (), (), Answer.NOT_RUN, "", ()),)
    made = page.Page("2.13.0", "", "", 2, 0.0, "", 3, 7, 1.0, False, "", rows)
    assert exit_code(made, None) is ExitCode.INCONCLUSIVE


def test_all_that_is_wrong_with_the_options_is_told_at_once(tmp_path: Path) -> None:
    wrong = Options(
        names=("blocking-wiat",), backends=("mpi",), repeat="0", seed="x", form="yaml",
        json_file=str(tmp_path), against="nowhere.json",
    )  # fmt: skip
    with pytest.raises(InvalidInput) as caught:
        read(wrong)
    said = "\n".join(map(str, caught.value.problems))
    for part in ("blocking-wiat", "mpi", "--repeat 0", "--seed 'x'", "'yaml'", "--json", "nowhere.json"):
        assert part in said


def test_the_list_names_what_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "--list", "blocking-wait"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("blocking-wait\n")
    assert "with TORCH_NCCL_BLOCKING_WAIT=1" in out
    assert main(["claims", "--list", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["claims"]) > 40
    assert main(["claims", "--list", "nothing-like-it"]) == ExitCode.USAGE
