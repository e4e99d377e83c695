"""``chaoskit matrix``: options, what is wrong with them, going on, and the files that are written."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from chaoskit.cli import main
from chaoskit.cli.matrix import execute
from chaoskit.cli.matrix_options import MatrixOptions, read
from chaoskit.cli.option_values import library
from chaoskit.errors import ChaoskitError, ExitCode, InvalidInput
from chaoskit.matrix import asking
from chaoskit.matrix.request import MatrixObserver, MatrixRequest
from chaoskit.matrix.values import NONE, PROFILE, Cell, Column, Effort, Mark, Matrix, Origin, Row

COMMAND = ("sh", "-n", "2", "{rank}")
ONE = ("rank-stopped",)
"""To read the whole library takes seconds."""
Printed = pytest.CaptureFixture[str]


def asked(**fields: object) -> MatrixRequest:
    return read(MatrixOptions(**fields), library()).request  # type: ignore[arg-type]


def test_what_is_typed_becomes_a_request() -> None:
    found = asked(
        selectors=("rank-stopped",), profile="recommended", columns=("alone", "without-timeouts"), repeat="3",
        seed="7", timeout="30s", time_scale="0.5",
    )  # fmt: skip
    run = found.run
    assert [s.name for s in run.scenarios] == ["rank-stopped"]
    assert run.profile is not None and run.profile.name == "recommended"
    assert found.columns == (Column("alone"), Column("without", "timeouts"))
    assert (run.repeat, run.seed, run.timeout_s, run.time_scale) == (3, 7, 30.0, 0.5)
    assert found.again == (
        "chaoskit", "matrix", "--profile", "recommended", "--repeat", "3", "--timeout", "30s",
        "--time-scale", "0.5",
    )  # fmt: skip


def test_every_problem_is_told_at_once(capsys: Printed) -> None:
    wrong = ("rank-stoped", "--column", "alone-timeout", "--repeat", "0", "--seed", "x", "--backend", "mpi")
    assert main(["matrix", *wrong]) == ExitCode.USAGE
    said = capsys.readouterr().err
    for part in ("rank-stoped", "--repeat 0", "--seed 'x'", "--backend 'mpi'"):
        assert part in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rank-stopped", "--column", "alone-timeout"), "did you mean 'alone-timeouts'?"),
        (("rank-stopped", "--profile", "nobody"), "there is no profile 'nobody'"),
        (("rank-stopped", "--profile", "torch-defaults"), "there is nothing to compare"),
        (("rank-stopped", "-k", "nothing"), "matches none of 1 scenarios"),
        (("rank-stopped", "--require", "gpus"), "nothing of that name can be required"),
        (("rank-stopped", "--resume", "nowhere"), "is no folder of a matrix"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], said: str, capsys: Printed) -> None:
    assert main(["matrix", *arguments]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_going_on_asks_the_same_but_for_what_is_given(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nguards:\n  timeouts: {}\n")
    first = asked(selectors=("rank-stopped",), profile=str(file), repeat="2", columns=("alone",))
    asking.write(tmp_path, first, {"torch": "2.13.0"})
    with pytest.raises(InvalidInput, match="seed"):  # none was drawn: the file says None
        asked(resume=str(tmp_path))
    asking.write(tmp_path, asked(selectors=("rank-stopped",), profile=str(file), repeat="2", seed="9"), {})
    again = asked(resume=str(tmp_path), repeat="4")
    assert (again.run.seed, again.run.repeat, again.folder) == (9, 4, tmp_path)
    assert again.run.profile is not None and again.run.profile.file == str(file)
    assert [s.name for s in again.run.scenarios] == ["rank-stopped"]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's script, in the current folder."""
    path = tmp_path / "train.py"
    path.write_text("raise SystemExit('never run here')")
    (tmp_path / "pkg").mkdir()
    monkeypatch.chdir(tmp_path)
    return path


def test_a_program_is_named_wherever_a_cell_is_run_again(train: Path) -> None:
    options = {"script": "train.py", "within": "90s", "behind": ("--data", "a b", "--token", "sesame-open")}
    found = asked(selectors=("rank-stopped",), launcher="torchrun", **options)
    program = found.run.program
    assert program is not None and (program.target, program.args[-1]) == (str(train), "sesame-open")
    assert (found.run.launcher, found.run.stall_s) == ("torchrun", 90.0)
    assert found.again == (
        "chaoskit", "matrix", "--script", str(train), "--launcher", "torchrun", "--within", "90s",
    )  # fmt: skip
    assert found.behind == ("--", "--data", "a b", "--token", "<redacted>")
    asking.write(train.parent, found, {})
    assert "sesame" not in (train.parent / asking.FILE).read_text()


def test_a_secret_that_was_not_kept_is_asked_for(train: Path) -> None:
    first = asked(selectors=ONE, script="train.py", seed="1", behind=("--token", "sesame-open"))
    asking.write(train.parent, first, {})
    with pytest.raises(InvalidInput, match="give all of them again"):
        asked(resume=str(train.parent))
    program = asked(resume=str(train.parent), behind=("--token", "sesame-open")).run.program
    assert program is not None and program.args == ("--token", "sesame-open")


@pytest.mark.parametrize(
    ("first", "then", "kind", "args"),
    [
        ({"script": "train.py"}, {}, "script", ("--n", "1")),
        ({"script": "train.py"}, {"behind": ()}, "script", ()),
        ({"script": "train.py"}, {"module": "pkg"}, "module", ("--n", "1")),
        ({"module": "pkg"}, {"script": "train.py"}, "script", ("--n", "1")),
        ({"script": "train.py"}, {"launcher": "command", "behind": COMMAND}, "command", COMMAND),
        ({"launcher": "command", "behind": COMMAND}, {"script": "train.py"}, "script", ()),
    ],
)
def test_going_on_with_a_program(
    train: Path, first: dict[str, object], then: dict[str, object], kind: str, args: tuple[str, ...]
) -> None:
    """What names the program anew takes its place; its arguments stay, except those of a whole command."""
    asking.write(train.parent, asked(selectors=ONE, seed="1", **{"behind": ("--n", "1"), **first}), {})
    found = asked(resume=str(train.parent), **then).run
    assert found.program is not None and (found.program.kind, found.program.args) == (kind, args)
    assert (found.launcher == "command") == (kind == "command")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema_version": 1}', '{"schema_version": 1, "options": {"seed": 7}}']
)
def test_a_damaged_file_of_what_was_asked(tmp_path: Path, text: str) -> None:
    (tmp_path / asking.FILE).write_text(text)
    with pytest.raises(InvalidInput, match="cannot be read"):
        asked(resume=str(tmp_path))


@pytest.mark.parametrize("name", ["selectors", "columns", "profile", "seed", "gpu_sharing"])
@pytest.mark.parametrize("value", [7, None, {}, ["a", 1], ["a"], "a", "a\0", "\ud800"])
def test_an_option_of_the_wrong_kind_is_refused_with_words(
    tmp_path: Path, capsys: Printed, name: str, value: object
) -> None:
    """Whatever it is: words and 64, or what can be typed as well."""
    options = {"selectors": ["rank-stopped"], "seed": "5", "ranks": "x", name: value}
    (tmp_path / asking.FILE).write_text(json.dumps({"schema_version": 1, "options": options}))
    code = main(["matrix", "--resume", str(tmp_path), "--format", "nothing"])
    assert code == ExitCode.USAGE
    said = capsys.readouterr().err
    listed = name in asking.LISTED
    typed = isinstance(value, str) and value == "a" if not listed else value == ["a"]
    assert ("of a kind that it cannot have" in said) == (not typed)


def test_a_pipe_for_what_was_asked_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / asking.FILE)
    with pytest.raises(InvalidInput, match="not a regular file"):
        asked(resume=str(tmp_path))
    assert asking.changed(tmp_path, {"torch": "2"}) == ()


def test_changed_conditions_are_named(tmp_path: Path) -> None:
    asking.write(
        tmp_path, asked(selectors=("rank-stopped",), seed="9"), {"torch": "2.13.0", "Python": "3.11"}
    )
    assert asking.changed(tmp_path, {"torch": "2.14.0", "Python": "3.11"}) == ("torch",)
    assert asking.changed(tmp_path / "missing", {"torch": "2.14.0"}) == ()


def made(folder: Path, interrupted: bool = False) -> Matrix:
    cells = (Cell(NONE, Mark.BITES), Cell(PROFILE, Mark.HELD))
    row = Row("rank-stopped", "process", "", False, "gloo", "strict", cells)
    origin = Origin(
        str(folder), "strict", "gloo", 5, "2.13.0", "0.1.0", "3.11", 2, 1, "", "chaoskit matrix --resume X"
    )
    return Matrix(origin, ("timeouts",), (row,), effort=Effort(1.0, 4.0, 2), interrupted=interrupted)


def test_the_reports_are_written_and_json_is_alone_on_stdout(tmp_path: Path) -> None:
    options = MatrixOptions(("rank-stopped",), form="json", markdown=str(tmp_path / "copy.md"))

    def maker(request: MatrixRequest, observer: MatrixObserver) -> Matrix:
        return made(tmp_path)

    out, err = io.StringIO(), io.StringIO()
    assert execute(read(options, library()), maker, out, err) is ExitCode.OK
    assert json.loads(out.getvalue())["rows"][0]["scenario"] == "rank-stopped"
    assert {p.name for p in tmp_path.iterdir()} == {"matrix.html", "matrix.md", "matrix.json", "copy.md"}
    assert json.loads((tmp_path / "matrix.json").read_text())["exit_code"] == 0


def test_interrupted_tells_how_to_go_on(tmp_path: Path) -> None:
    def maker(request: MatrixRequest, observer: MatrixObserver) -> Matrix:
        return made(tmp_path, interrupted=True)

    out = io.StringIO()
    code = execute(read(MatrixOptions(("rank-stopped",)), library()), maker, out, io.StringIO())
    assert code is ExitCode.INTERRUPTED and "go on with: chaoskit matrix --resume X" in out.getvalue()


def test_a_file_that_cannot_be_written_keeps_nothing_back(tmp_path: Path) -> None:
    def maker(request: MatrixRequest, observer: MatrixObserver) -> Matrix:
        return made(tmp_path / "missing")

    out = io.StringIO()
    with pytest.raises(ChaoskitError, match="could not be written"):
        execute(read(MatrixOptions(("rank-stopped",)), library()), maker, out, io.StringIO())
    assert "holds 1 of 1" in out.getvalue()
