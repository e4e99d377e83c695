"""The command line as a whole: exit codes, messages, and what it costs to start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from chaoskit import cli
from chaoskit.cli import COMMANDS, main
from chaoskit.errors import BrokenPlugin, LaunchFailed, usage

Captured = pytest.CaptureFixture[str]
HEAVY = {
    "torch",
    "pydantic",
    "pydantic_core",
    "rich",
    "ruamel",
    "multiprocess",
    "psutil",
    "importlib.metadata",
    "numpy",
}


def started(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chaoskit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=env)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make the command ``list`` raise."""

    def install(error: BaseException) -> None:
        @click.command()
        def broken() -> None:
            raise error

        monkeypatch.setattr(cli.Commands, "get_command", lambda *_: broken)

    return install


def test_help_names_every_command_and_every_command_is_there(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  {name}" in said
        assert main([name, "--help"]) == 0, name
        assert capsys.readouterr().out.startswith(f"Usage: chaoskit {name} ")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "Usage: chaoskit"),
        (["lst"], "did you mean list?"),
        (["--bogus"], "No such option"),
        (["list", "--bogus"], "see: chaoskit list --help"),
        (["list", "extra"], "unexpected extra argument"),
        (["list", "--format", "xml"], "'xml' is not one of"),
        (["show"], "Missing argument"),
        (["validate"], "no file given"),
        (["schema", "x"], "is not one of"),
        (["show", "no-such-scenario"], "there is no scenario 'no-such-scenario'"),
        (["profiles", "show", "stric"], "did you mean strict?"),
        (["profiles", "nonsense"], "No such command"),
    ],
)
def test_wrong_usage_is_64_and_says_what_is_wrong(arguments: list[str], part: str, capsys: Captured) -> None:
    assert main(arguments) == 64
    said = capsys.readouterr()
    assert part in said.err
    assert said.out == ""
    assert "Traceback" not in said.err


def test_each_error_has_its_code(failing: Callable[[BaseException], None], capsys: Captured) -> None:
    for error, code in [
        (usage("bad", "do it so"), 64),
        (BrokenPlugin("broken"), 64),
        (LaunchFailed("no server"), 70),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (SystemExit(2), 2),
        (SystemExit(None), 0),
        (BrokenPipeError(), 141),
    ]:
        failing(error)
        assert main(["list"]) == code, error
        assert "Traceback" not in capsys.readouterr().err


def test_an_error_of_chaoskit_s_own_is_one_line_and_a_file(
    failing: Callable[[BaseException], None],
    capsys: Captured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failing(ValueError("odd\nvery odd"))
    assert main(["list"]) == 70
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("chaoskit: an error of chaoskit itself: ValueError: odd")
    (file,) = tmp_path.glob("chaoskit-error-*.txt")
    assert str(file) in said
    assert "Traceback" in file.read_text()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert main(["list"]) == 70
    assert "--traceback" in capsys.readouterr().err
    assert main(["--traceback", "list"]) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "f.yaml"
    file.write_text('name: "\\e[31mred\\a"\n"\\e]0;title\\a": 1\n"\\u202e": 2\n')
    assert main(["validate", str(file)]) == 64
    said = capsys.readouterr().err
    assert not set(said) & {"\x1b", "\x07", "\u202e"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["list"], ["list", "--format", "json"], ["--version"], ["new"]]
)
def test_starting_imports_nothing_heavy(arguments: list[str]) -> None:
    allowed = {"importlib.metadata"} if arguments == ["--version"] else set()
    code = (
        "import sys\nfrom chaoskit.cli import main\n"
        f"code = main({arguments!r})\n"
        f"print(*sorted({HEAVY - allowed!r} & sys.modules.keys()), file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, "-m", "chaoskit", "profiles", "show", "strict"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writer)
        _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (141, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "chaoskit", "list"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 70
    assert "could not be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_utf_8_gets_what_it_can_show() -> None:
    done = started("show", "rank-slow", env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


def test_closed_streams_are_no_error() -> None:
    for command, code in (("list", 0), ("nonsense", 64), ("--help", 0)):
        script = f"exec {sys.executable} -m chaoskit {command} >&- 2>&-"
        assert subprocess.run(["sh", "-c", script], timeout=100).returncode == code


def test_python_m_chaoskit_exits_with_the_code() -> None:
    assert started("nonsense").returncode == 64
