"""``chaoskit report``: every report from the files alone, also of damaged ones; a report is no gate."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from chaoskit.cli import main
from chaoskit.cli.judging_again import Judge, PlanFacts
from chaoskit.cli.report import ReportOptions, execute
from chaoskit.errors import ChaoskitError, ExitCode, InvalidInput
from chaoskit.model import Backend, Culprit, Kind, Outcome, Result, ScenarioResult, Status, Verdict

# The real run is started by the first test that looks at it: on a busy machine torch alone may take a minute.
pytestmark = [pytest.mark.usefixtures("plain_environment"), pytest.mark.timeout(300)]

Printed = pytest.CaptureFixture[str]
Streams = Callable[..., io.StringIO]


def judged_arm(folders: Sequence[Path]) -> Verdict:
    folder = folders[0]
    bad = folder.name == "hardened"
    return Verdict(
        folder.parent.name, folder.name, 1, 1, "gloo", "recommended", Status.FAIL if bad else Status.PASS,
        "rank 1 hung", Outcome.HUNG, Kind.FROZEN, culprits=(Culprit("rank", "1"),), where="train.py:3",
    )  # fmt: skip


def combined(
    name: str, backend: Backend, healthy: bool, verdicts: Sequence[Verdict], completes: bool
) -> ScenarioResult:
    return ScenarioResult(name, backend, Result.NOT_HELD, "hardened: rank 1 hung", tuple(verdicts))


HOW = Judge(judged_arm, lambda text: PlanFacts(False, 7), combined)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return make_run(tmp_path / "runs" / "20260101-120000-7", ("a",))


def make_run(run: Path, scenarios: Sequence[str]) -> Path:
    for scenario in scenarios:
        for name in ("control", "hardened"):
            folder = run / scenario / name
            folder.mkdir(parents=True)
            (folder / "plan.json").write_text(json.dumps({"arm": name, "of": scenario}))
            (folder / "history.jsonl").write_text('{"kind":"Started","t_s":1.0,"slot":0,"pid":7}\n')
    record = {"seed": 7, "wall_s": 2.5, "versions": {"torch": "2.13.0", "kernel": "6.1"}}
    (run / "run.json").write_text(json.dumps(record))
    return run


def report(out: io.StringIO, err: io.StringIO, *run_dirs: Path, **options: Any) -> ExitCode:
    return execute(ReportOptions(tuple(map(str, run_dirs)), **options), HOW, out, err)


def test_without_an_option_the_terminal_report_and_no_gate(run_dir: Path, stream: Streams) -> None:
    out = stream()
    assert report(out, stream(), run_dir) is ExitCode.OK
    assert "✗ a  not held  [gloo]" in out.getvalue()
    assert f"run directory: {run_dir}\n" in out.getvalue()


def test_each_file_has_a_place_in_the_run_directory(run_dir: Path, stream: Streams) -> None:
    out = stream()
    report(out, stream(), run_dir, html="", trace="", markdown="", junit="")
    names = ["report.html", "trace.json", "report.md", "junit.xml"]
    assert out.getvalue() == "".join(f"written: {run_dir / name}\n" for name in names)
    page = (run_dir / "report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    entries = json.loads((run_dir / "trace.json").read_text())["traceEvents"]
    named = [e["args"]["name"] for e in entries if e["name"] == "process_name"]
    assert named == ["a/control arm", "a/control rank 0", "a/hardened arm", "a/hardened rank 0"]
    assert (run_dir / "report.md").read_text(encoding="utf-8").startswith("### chaoskit: 1 not held\n")
    assert ET.parse(run_dir / "junit.xml").getroot().get("failures") == "1"


def test_of_an_arm_alone_and_compressed(run_dir: Path, stream: Streams, tmp_path: Path) -> None:
    report(stream(), stream(), run_dir / "a" / "hardened", trace=str(tmp_path / "new" / "t.json.gz"))
    document = json.loads(gzip.decompress((tmp_path / "new" / "t.json.gz").read_bytes()))
    named = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"]
    assert named == ["arm", "rank 0"]
    assert document["otherData"]["kernel"] == "6.1"


def test_one_report_may_have_the_standard_output(
    run_dir: Path, stream: Streams, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bytes(io.StringIO):
        buffer = io.BytesIO()

    out, err = Bytes(), stream()
    report(out, err, run_dir, markdown="-", junit="")
    assert out.getvalue() == ""
    assert Bytes.buffer.getvalue().startswith(b"### chaoskit: ")
    assert capsys.readouterr().err == ""
    assert err.getvalue() == f"written: {run_dir / 'junit.xml'}\n"
    for options in (
        {"markdown": "-", "html": "-"},
        {"junit": "-", "github": True},
        {"html": "-", "form": "json"},
    ):
        with pytest.raises(InvalidInput, match="only one of them can have the standard output"):
            report(stream(), stream(), run_dir, **options)


def test_annotations_and_the_verdicts_as_json(run_dir: Path, stream: Streams) -> None:
    out = stream()
    assert report(out, stream(), run_dir, github=True) is ExitCode.OK
    assert out.getvalue().startswith(
        "::error file=train.py,line=3,title=a/hardened%3A not held::culprit: rank 1"
    )
    out = stream()
    report(out, stream(), run_dir, form="json", junit="")
    assert json.loads(out.getvalue())["summary"]["not_held"] == 1


def test_the_newest_run_is_the_default_and_is_named(
    run_dir: Path, stream: Streams, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = make_run(run_dir.parent / "20260102-110000-3", ("b",))
    (run_dir.parent / "20260103-no-run").mkdir()
    monkeypatch.chdir(run_dir.parent.parent)
    out = stream()
    report(out, stream(), html="")
    assert capsys.readouterr().err == f"the newest run: runs/{newest.name}/\n"
    assert (newest / "report.html").is_file()
    monkeypatch.chdir(newest)
    with pytest.raises(InvalidInput, match=r"there is no run in \./runs"):
        report(stream(), stream())


def made_by(run: Path, command: str) -> Path:
    run.mkdir(exist_ok=True)
    (run / "run.json").write_text(json.dumps({"seed": 7, "command": command}))
    return run


def test_what_a_command_made_for_itself_is_not_the_newest_run_and_is_told(
    run_dir: Path, stream: Streams, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = run_dir.parent
    prices = made_by(runs / "20260102-1-7", "chaoskit cost 'it''s' strict")
    (prices / "cost.json").write_text("{}")
    detection = made_by(make_run(runs / "20260102-2-7", ("b",)), "chaoskit cost 'it''s' strict")
    made_by(make_run(runs / "20260102-3-7", ("c",)), "__main__.py --traceback claims it's")
    monkeypatch.chdir(runs.parent)
    report(stream(), stream())
    assert capsys.readouterr().err == (
        f"the newest run: runs/{run_dir.name}/ (what is newer was made by chaoskit claims and chaoskit cost"
        " for itself)\n"
    )
    report(stream(), stream(), detection / "b" / "control")
    (line,) = capsys.readouterr().err.splitlines()
    assert "this run was made by `chaoskit cost` for itself" in line
    assert f"its own report is {prices / 'cost.json'}" in line
    for command in ("chaoskit run cost", "train.py cost", ""):
        made_by(detection, command)
        report(stream(), stream(), detection)
        assert capsys.readouterr().err == ""
    shutil.rmtree(run_dir)
    shutil.rmtree(detection)
    with pytest.raises(InvalidInput, match="but what chaoskit claims and chaoskit cost made for itself"):
        report(stream(), stream())


def test_a_matrix_has_a_report_of_its_own(tmp_path: Path, stream: Streams, capsys: Printed) -> None:
    matrix = tmp_path / "m"
    run = made_by(make_run(matrix / "runs" / "r", ("a",)), "chaoskit matrix all")
    said = "made by `chaoskit matrix` for itself, the verdicts are no findings; {} own report is {}"
    for path, whose, where in ((matrix, "their", "matrix.html"), (run, "its", "matrix.html")):
        report(stream(), stream(), path)
        assert said.format(whose, where) in capsys.readouterr().err
    for name in ("matrix.html", "matrix.json"):
        (matrix / name).write_text("")
    for path, whose in ((matrix, "their"), (run, "its")):
        report(stream(), stream(), path)
        assert said.format(whose, matrix / "matrix.html") in capsys.readouterr().err


def test_wrong_use_is_told_before_anything_is_written(run_dir: Path, stream: Streams, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    other = make_run(tmp_path / "runs" / "y", ("b",))
    for run_dirs, options, part in (
        ([run_dir], {"html": str(run_dir)}, "is a folder, --html needs a file"),
        ([run_dir], {"html": str(tmp_path / "file" / "x")}, "cannot be written"),
        ([run_dir, other], {"html": ""}, "of several run directories it needs a FILE"),
        ([run_dir], {"html": "same", "junit": "./same"}, "is given for several reports"),
        ([run_dir], {"form": "xml"}, "expected text or json"),
        ([tmp_path / "nope"], {"html": ""}, "there is no such folder"),
    ):
        with pytest.raises(InvalidInput, match=part):
            report(stream(), stream(), *run_dirs, **options, markdown="report.md")
        assert not Path("report.md").exists()
    assert not (tmp_path / "nope").exists()


def test_a_trace_of_too_many_arms_names_one(tmp_path: Path, stream: Streams) -> None:
    many = make_run(tmp_path / "runs" / "many", [f"s{n}" for n in range(5)])
    with pytest.raises(InvalidInput, match=r"at most 8 arms, and here are 10\n    name an arm: .*s0/control"):
        report(stream(), stream(), many, trace="")
    for folder in many.glob("*/*"):
        (folder / "history.jsonl").unlink()
    with pytest.raises(InvalidInput, match="no arm here has a history"):
        report(stream(), stream(), many, trace="")


def test_the_summary_of_a_github_step_is_added_to_and_any_other_file_replaced(
    run_dir: Path, stream: Streams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary, other = tmp_path / "summary", tmp_path / "other.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for path in (summary, other):
        path.write_text("before\n")
        report(stream(), stream(), run_dir, markdown=str(path))
    assert summary.read_text(encoding="utf-8").startswith("before\n### chaoskit: ")
    assert other.read_text(encoding="utf-8").startswith("### chaoskit: ")


def test_a_report_that_cannot_be_written_does_not_keep_back_the_others(
    run_dir: Path, stream: Streams, tmp_path: Path
) -> None:
    with pytest.raises(ChaoskitError, match="/dev/full: the html report could not be written: No space left"):
        report(stream(), stream(), run_dir, html="/dev/full", junit=str(tmp_path / "junit.xml"))
    assert ET.parse(tmp_path / "junit.xml").getroot().get("tests") == "2"


# ---------------------------------------------------------------- a real run, and what may become of it


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run, with all the reports that ``run`` can write."""
    folder = tmp_path_factory.mktemp("real")
    files = ["--html", "page.html", "--markdown", "summary.md", "--junit", "junit.xml", "--github"]
    done = subprocess.run(
        [sys.executable, "-m", "chaoskit", "run", "rank-killed-mid-all-reduce", "--arm", "hardened", *files],
        cwd=folder, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == ExitCode.INCONCLUSIVE  # there is no control
    lines = done.stdout.splitlines()
    assert lines[-3:] == ["written: page.html", "written: summary.md", "written: junit.xml"]
    assert lines[-4].startswith("::warning title=rank-killed-mid-all-reduce%3A inconclusive::")
    for name in files[1:6:2]:
        assert (folder / name).stat().st_size > 200
    (run,) = (folder / "runs").iterdir()
    return run


@pytest.fixture
def arm(real: Path, tmp_path: Path) -> Path:
    """The arm's folder in a copy of the run, to be damaged."""
    copy = tmp_path / "copy"
    shutil.copytree(real, copy)
    return copy / "rank-killed-mid-all-reduce" / "hardened"


ALL = ("--html", "--trace", "--markdown", "--junit")


def test_a_real_run_from_its_files_alone(arm: Path, capsys: Printed) -> None:
    assert main(["report", str(arm), *ALL]) == 0
    assert capsys.readouterr().err == ""
    entries = json.loads((arm / "trace.json").read_text())["traceEvents"]
    killed = [e for e in entries if e["ph"] == "i" and e["name"] == "ended: SIGKILL"]
    assert {e["pid"] for e in killed} >= {3}  # rank 1
    assert any(e["ph"] == "s" and e["name"] == "waited for" for e in entries)
    assert "rank 1 killed" in (arm / "report.html").read_text(encoding="utf-8")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scribble(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(b"\x00\xff{nonsense\n" if n % 5 == 4 else line for n, line in enumerate(lines)))


@pytest.mark.parametrize("damage", [cut, scribble])
def test_a_damaged_history_still_gives_every_report_and_says_so(
    damage: Callable[[Path], None], arm: Path, capsys: Printed
) -> None:
    damage(arm / "history.jsonl")
    assert main(["report", str(arm), *ALL]) == 0
    for name in ("report.html", "trace.json", "report.md", "junit.xml"):
        assert (arm / name).stat().st_size > 200
    json.loads((arm / "trace.json").read_text())
    capsys.readouterr()
    assert main(["report", str(arm)]) == 0
    said = capsys.readouterr()
    # Cut at the end of a line it is not damaged, only short.
    assert "the history is damaged" in said.out or "the history ends before the arm did" in said.out
    assert "Traceback" not in said.out + said.err


def remove_plan(arm: Path) -> Path:
    (arm / "plan.json").unlink()
    return arm


def no_plan_but_another_arm(arm: Path) -> Path:
    shutil.copytree(arm, arm.parent / "control")
    (arm / "plan.json").write_bytes(b"\x7fELF\x00\xff")
    return arm.parent


def binary_history(arm: Path) -> Path:
    (arm / "history.jsonl").write_bytes(bytes(range(256)) * 64)
    return arm


def empty(arm: Path) -> Path:
    (arm.parent / "empty").mkdir()
    return arm.parent / "empty"


@pytest.mark.parametrize(
    ("damage", "code", "part"),
    [
        (remove_plan, 64, "there is no plan.json"),
        (no_plan_but_another_arm, 0, "cannot be judged"),
        (binary_history, 0, ""),
        (empty, 64, "holds no arm of a run (no plan.json)"),
        (lambda arm: arm / "plan.json", 64, "is not a folder"),
        (lambda arm: Path(sys.executable), 64, "is not a folder"),
    ],
)
def test_what_cannot_be_read_is_told_without_a_traceback(
    damage: Callable[[Path], Path], code: int, part: str, arm: Path, capsys: Printed
) -> None:
    what = damage(arm)
    files = [f"{option}={arm.parent / option.strip('-')}" for option in ALL]
    assert main(["report", str(what), *files]) == code
    said = capsys.readouterr()
    assert part in said.err
    assert "Traceback" not in said.err
    assert (arm.parent / "html").exists() is (code == 0)
