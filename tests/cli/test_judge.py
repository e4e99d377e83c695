"""``chaoskit judge``: whole runs and single arms, damaged files, several runs at once."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit.cli.judge import execute
from chaoskit.cli.judging_again import Judge, PlanFacts
from chaoskit.errors import ExitCode, InvalidInput, Problem
from chaoskit.model import Backend, Outcome, Result, ScenarioResult, Status, Verdict

Streams = Callable[..., io.StringIO]


def judged_arm(folders: Sequence[Path]) -> Verdict:
    """Read a verdict from the file that these tests write in place of a history."""
    folder = next((f for f in folders if (f / "history.jsonl").exists()), folders[0])
    text = (folder / "history.jsonl").read_text(encoding="utf-8")
    if text == "crash":
        raise TypeError("a field that no check foresaw")
    if not text.startswith("{"):
        raise InvalidInput([Problem("is no history", str(folder / "history.jsonl"), 1)])
    raw = json.loads(text)
    return Verdict(
        raw["scenario"], raw["arm"], raw["repeat"], 1, "gloo", "recommended", Status(raw["status"]), "told",
        Outcome.FAILED,
    )  # fmt: skip


def combined(
    name: str, backend: Backend, healthy: bool, verdicts: Sequence[Verdict], completes: bool
) -> ScenarioResult:
    unclear = any(v.status is Status.INCONCLUSIVE for v in verdicts)
    return ScenarioResult(
        name, backend, Result.INCONCLUSIVE if unclear else Result.HELD, f"healthy {healthy}", tuple(verdicts)
    )


def read_plan(plan: str) -> PlanFacts:
    if not plan.startswith("{"):
        raise InvalidInput([Problem("is no plan", hint="was it written by chaoskit?")])
    raw = json.loads(plan)
    return PlanFacts(bool(raw["healthy"]), raw["seed"])


HOW = Judge(judged_arm, read_plan, combined)


def arm(run: Path, scenario: str, name: str, repeat: int = 1, healthy: bool = False) -> Path:
    folder = run / scenario / (name if repeat == 1 else f"{name}-r{repeat}")
    folder.mkdir(parents=True)
    plan = {"healthy": healthy, "seed": 7, "arm": name, "scenario": scenario, "repeat": repeat}
    (folder / "plan.json").write_text(json.dumps(plan))
    said = {"scenario": scenario, "arm": name, "repeat": repeat, "status": "pass"}
    (folder / "history.jsonl").write_text(json.dumps(said))
    return folder


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "x-7"
    for repeat in (1, 2, 10):
        arm(run, "a", "control", repeat)
        arm(run, "a", "hardened", repeat)
    arm(run, "twin", "control", healthy=True)
    record = {"seed": 7, "wall_s": 2.5, "versions": {"torch": "2.13.0"}}
    (run / "run.json").write_text(json.dumps(record))
    return run


def as_json(paths: list[Path], stream: Streams) -> dict[str, object]:
    out = stream()
    execute(paths, "json", HOW, out)
    document: dict[str, object] = json.loads(out.getvalue())
    return document


def test_a_whole_run(run_dir: Path, stream: Streams) -> None:
    document = as_json([run_dir], stream)
    assert (document["run_dir"], document["seed"], document["torch"]) == (str(run_dir), 7, "2.13.0")
    assert document["wall_s"] == 2.5
    assert document["scenarios"] == [
        {"name": "a", "backend": "gloo", "result": "held", "reason": "healthy False"},
        {"name": "twin", "backend": "gloo", "result": "held", "reason": "healthy True"},
    ]
    verdicts = document["verdicts"]
    assert isinstance(verdicts, list)
    assert [(v["arm"], v["repeat"]) for v in verdicts][:6] == [
        ("control", 1), ("control", 2), ("control", 10), ("hardened", 1), ("hardened", 2), ("hardened", 10),
    ]  # fmt: skip


def test_an_arm_or_a_scenario_of_a_run_knows_its_run(run_dir: Path, stream: Streams) -> None:
    for path, count in ((run_dir / "a" / "control-r2", 1), (run_dir / "a", 6)):
        document = as_json([path], stream)
        verdicts = document["verdicts"]
        assert isinstance(verdicts, list)
        assert (document["run_dir"], document["seed"], len(verdicts)) == (str(run_dir), 7, count)


def test_what_is_given_twice_counts_once(run_dir: Path, stream: Streams) -> None:
    verdicts = as_json([run_dir, run_dir / "a" / "control", run_dir / "."], stream)["verdicts"]
    assert isinstance(verdicts, list)
    assert len(verdicts) == 7


def test_runs_stay_apart(run_dir: Path, stream: Streams) -> None:
    other = run_dir.parent / "y-8"
    arm(other, "a", "control")
    (other / "run.json").write_text(json.dumps({"seed": 8, "wall_s": 1, "versions": {"torch": "2.13.0"}}))
    document = as_json([run_dir, other], stream)
    scenarios = document["scenarios"]
    assert isinstance(scenarios, list)
    assert [s["name"] for s in scenarios] == ["a", "twin", "a"]
    assert (document["run_dir"], document["seed"], document["wall_s"]) == (str(run_dir.parent), None, 3.5)


@pytest.fixture
def split(tmp_path: Path) -> tuple[list[list[Path]], Judge]:
    """Record which folders are judged as one arm."""
    asked: list[list[Path]] = []

    def judged(folders: Sequence[Path]) -> Verdict:
        asked.append(list(folders))
        return Verdict("a", "hardened", 1, 1, "gloo", "", Status.PASS, "", Outcome.FAILED)

    return asked, Judge(judged, read_plan, combined)


def test_folders_of_several_machines_are_one_arm(
    tmp_path: Path, stream: Streams, split: tuple[list[list[Path]], Judge], capsys: pytest.CaptureFixture[str]
) -> None:
    asked, how = split
    hosts = [arm(tmp_path / f"host-{n}", "a", "hardened") for n in (0, 1)]
    for host in hosts:
        (host / "history.jsonl").unlink()
    other = arm(tmp_path / "other", "a", "control")
    out = stream()
    execute([tmp_path / "host-0", tmp_path / "host-1", other], "json", how, out)
    assert asked == [hosts, [other]]
    assert (json.loads(out.getvalue())["seed"], capsys.readouterr().err) == (7, "")


def test_a_runner_and_the_machines_it_could_not_see_are_one_arm(
    run_dir: Path, stream: Streams, split: tuple[list[list[Path]], Judge]
) -> None:
    asked, how = split
    runner = run_dir / "a" / "hardened"
    away = arm(run_dir.parent.parent / "away", "a", "hardened")
    (away / "history.jsonl").unlink()
    execute([away, runner], "json", how, stream())
    assert asked == [[runner, away]]


def test_arms_that_were_planned_and_started_by_hand_are_one_scenario(tmp_path: Path, stream: Streams) -> None:
    for name in ("control", "hardened"):
        arm(tmp_path / name, "a", name)
    document = as_json([tmp_path / "control", tmp_path / "hardened"], stream)
    assert [s["name"] for s in document["scenarios"]] == ["a"]  # type: ignore[attr-defined]


def test_two_runs_with_the_same_seed_are_two(
    run_dir: Path, stream: Streams, split: tuple[list[list[Path]], Judge]
) -> None:
    asked, how = split
    twice = [arm(run_dir.parent / name, "a", "hardened") for name in ("y-7", "z-7")]
    for folder in twice:
        (folder.parent.parent / "run.json").write_text('{"seed": 7}')
    (twice[1] / "history.jsonl").unlink()  # it did not come to its end, and must not vanish in the other
    execute(twice, "json", how, stream())
    assert asked == [[twice[0]], [twice[1]]]


def test_what_a_program_did_before_a_run_is_no_arm_of_it(run_dir: Path, stream: Streams) -> None:
    survey = arm(run_dir, "survey", "control")
    (survey / "plan.json").write_text('{"scenario": "watch", "healthy": true, "seed": 7}')
    arm(run_dir, "survey-results", "control")  # a scenario's own name
    verdicts = as_json([run_dir], stream)["verdicts"]
    assert isinstance(verdicts, list)
    assert [v["scenario"] for v in verdicts if v["scenario"].startswith("survey")] == ["survey-results"]
    alone = as_json([survey], stream)["verdicts"]
    assert isinstance(alone, list)
    assert len(alone) == 1  # asked for by its name


def test_the_table(run_dir: Path, stream: Streams) -> None:
    out = stream()
    assert execute([run_dir], "text", HOW, out) is ExitCode.OK
    text = out.getvalue()
    assert "✓ a  held  [gloo]" in text
    assert "3/3 equal" in text
    assert text.endswith(
        f"seed 7, torch 2.13.0\nrun directory: {run_dir}\nreport: chaoskit report {run_dir} --html\n"
    )


@pytest.mark.parametrize("damage", ["garbage", "crash", "", None])
def test_a_damaged_arm_is_named_and_inconclusive(
    damage: str | None, run_dir: Path, stream: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run_dir / "a" / "hardened-r10" / "history.jsonl"
    if damage is None:
        file.unlink()
    else:
        file.write_text(damage)
    out = stream()
    assert execute([run_dir], "json", HOW, out) is ExitCode.INCONCLUSIVE
    err = capsys.readouterr().err
    assert str(run_dir / "a" / "hardened-r10") in err
    assert "Traceback" not in err
    document = json.loads(out.getvalue())
    assert document["summary"]["inconclusive"] == 1
    (damaged,) = [v for v in document["verdicts"] if v["status"] == "inconclusive"]
    assert (damaged["scenario"], damaged["arm"], damaged["repeat"]) == ("a", "hardened", 10)
    assert damaged["reason"].startswith("its files cannot be read: ")


def test_an_arm_without_its_plan_is_inconclusive(
    run_dir: Path, stream: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_dir / "a" / "hardened-r10"
    (folder / "plan.json").unlink()
    out = stream()
    assert execute([run_dir], "json", HOW, out) is ExitCode.INCONCLUSIVE
    assert f"{folder}: there is no plan.json" in capsys.readouterr().err
    (lost,) = [v for v in json.loads(out.getvalue())["verdicts"] if v["status"] == "inconclusive"]
    assert (lost["scenario"], lost["arm"], lost["repeat"]) == ("a", "hardened", 10)


@pytest.mark.parametrize(
    "record", ["", "[]", "[" * 100_000, '{"seed": "x", "wall_s": NaN, "versions": 3}', None]
)
def test_a_damaged_record_of_the_run_costs_no_verdict(
    record: str | None, run_dir: Path, stream: Streams
) -> None:
    if record is not None:
        (run_dir / "run.json").write_text(record)
    else:
        (run_dir / "run.json").write_bytes(b"\xff\xfe")
    out = stream()
    assert execute([run_dir], "json", HOW, out) is ExitCode.OK
    document = json.loads(out.getvalue())
    assert (document["seed"], document["torch"], len(document["verdicts"])) == (None, "", 7)


def test_nothing_to_judge_is_wrong_usage_with_every_problem(tmp_path: Path, stream: Streams) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    broken = arm(tmp_path / "broken", "a", "control")
    (broken / "plan.json").write_text("no")
    paths = [tmp_path / n for n in ("file", "empty", "absent", "broken", "bad\0name")]
    with pytest.raises(InvalidInput) as caught:
        execute(paths, "xml", HOW, stream())
    said = [str(p) for p in caught.value.problems]
    assert len(said) == 6
    for word in (
        "--format 'xml'",
        "file: is not a folder",
        "empty: holds no arm",
        "absent: there is no such folder",
    ):
        assert any(word in line for line in said)
    assert any(line.startswith(f"{broken / 'plan.json'}: is no plan") for line in said)


def test_no_folder_at_all(stream: Streams) -> None:
    with pytest.raises(InvalidInput, match="no run directory given"):
        execute([], "text", HOW, stream())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=st.binary(max_size=40), history=st.binary(max_size=40))
def test_the_real_reader_of_a_run_takes_any_bytes(
    plan: bytes, history: bytes, tmp_path_factory: pytest.TempPathFactory, stream: Streams
) -> None:
    from chaoskit.cli.judge import files_of_a_run

    folder = arm(tmp_path_factory.mktemp("run"), "a", "control")
    (folder / "plan.json").write_bytes(plan)
    (folder / "history.jsonl").write_bytes(history)
    with pytest.raises(InvalidInput):
        execute([folder], "text", files_of_a_run(), stream())


Document = dict[str, Any]


@pytest.mark.timeout(300)
def test_a_real_run_is_judged_again_to_the_same_verdicts(tmp_path: Path) -> None:
    def chaoskit(*arguments: str) -> Document:
        command = [sys.executable, "-c", "import sys; from chaoskit.cli import main; sys.exit(main())"]
        done = subprocess.run(
            [*command, *arguments, "--format", "json"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.stderr == ""
        document: Document = json.loads(done.stdout)
        assert done.returncode == document["summary"]["exit_code"]
        return document

    def by_arm(document: Document) -> list[Document]:
        return sorted(document["verdicts"], key=lambda v: (str(v["arm"]), int(v["attempt"])))

    ran = chaoskit("run", "rank-killed-mid-all-reduce", "--junit", "junit.xml")
    again = chaoskit("judge", ran["run_dir"])
    assert {v["arm"] for v in by_arm(ran)} == {"control", "hardened"}  # late for want of a core: two attempts
    assert by_arm(again) == by_arm(ran)
    assert (again["scenarios"], again["seed"], again["summary"]) == (
        ran["scenarios"],
        ran["seed"],
        ran["summary"],
    )
    assert len(list(ET.parse(tmp_path / "junit.xml").iter("testcase"))) == 2

    last = by_arm(ran)[-1]["attempt"]
    folder = "hardened" if last == 1 else f"hardened-a{last}"
    alone = chaoskit("judge", f"{ran['run_dir']}/rank-killed-mid-all-reduce/{folder}")
    assert alone["summary"]["exit_code"] == ExitCode.INCONCLUSIVE
