"""What the user names as his program: to the letter behind ``--``, and each mistake with a hint."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.cli.option_values import Found, Library
from chaoskit.cli.program import ProgramCommand, ProgramOptions, read_program, read_ranks
from chaoskit.errors import usage
from chaoskit.model import Launcher, Profile, Workload

pytestmark = pytest.mark.usefixtures("plain_environment")

Words = tuple[str, ...] | None


@pytest.fixture(scope="module")
def found() -> Callable[[], Found]:
    def load_profile(name: str) -> Profile:
        raise usage(f"no profile {name!r}")

    return lambda: Found(Library(lambda _: [], load_profile, list, float))


def problem(options: ProgramOptions, found: Callable[[], Found]) -> str:
    """Return the one problem of ``options``."""
    here = found()
    program, _ = read_program(options, here)
    assert program is None
    (said,) = here.problems
    return str(said)


def read_words(*arguments: str) -> tuple[tuple[str, ...], str | None, Words]:
    """Return what a command with a positional and an option gets."""
    got: list[tuple[tuple[str, ...], str | None, Words]] = []

    @click.command(cls=ProgramCommand)
    @click.argument("words", nargs=-1)
    @click.option("--ranks")
    def command(words: tuple[str, ...], ranks: str | None, behind: Words) -> None:
        got.append((words, ranks, behind))

    done = CliRunner().invoke(command, list(arguments))
    assert done.exit_code == 0, done.output
    return got[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ((), None, None)),
        (("a.py",), (("a.py",), None, None)),
        (("a.py", "--"), (("a.py",), None, ())),
        (("a.py", "--", "--ranks", "3"), (("a.py",), None, ("--ranks", "3"))),
        (("--ranks", "2", "a.py", "--", "-x"), (("a.py",), "2", ("-x",))),
        (("a.py", "--ranks", "2", "--", "a", "--", "b"), (("a.py",), "2", ("a", "--", "b"))),
        (("--", "--help"), ((), None, ("--help",))),
        (("--", ""), ((), None, ("",))),
    ],
)
def test_what_stands_behind_belongs_to_the_program(
    arguments: tuple[str, ...], expected: tuple[tuple[str, ...], str | None, Words]
) -> None:
    assert read_words(*arguments) == expected


@given(behind=st.lists(st.text()))
def test_every_word_behind_arrives_unchanged(behind: list[str]) -> None:
    assert read_words("a.py", "--", *behind)[2] == tuple(behind)


def test_an_unknown_option_says_where_it_goes() -> None:
    @click.command(cls=ProgramCommand)
    @click.argument("words", nargs=-1)
    def command(words: tuple[str, ...], behind: Words) -> None: ...

    done = CliRunner().invoke(command, ["a.py", "--epochs", "3"])
    assert done.exit_code == 2
    assert "goes behind --" in done.output
    assert "goes behind --" not in CliRunner().invoke(command, ["a.py", "--epochs", "--", "3"]).output
    assert "[-- ARGS...]" in CliRunner().invoke(command, ["--help"]).output


def test_a_script(found: Callable[[], Found], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('never run here')")
    here = found()
    program, launcher = read_program(ProgramOptions("train.py", behind=("--a", "b c")), here)
    expected = Workload("train.py", kind="script", target=str(tmp_path / "train.py"), args=("--a", "b c"))
    assert (program, launcher, here.problems) == (expected, None, [])


def test_a_module_is_found_and_not_imported(found: Callable[[], Found], tmp_path: Path) -> None:
    package = tmp_path / "mine_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    here = found()
    program, launcher = read_program(ProgramOptions(module="mine_of_a_test.train", launcher="torchrun"), here)
    expected = Workload("mine_of_a_test.train", kind="module", target="mine_of_a_test.train")
    assert (program, launcher, here.problems) == (expected, "torchrun", [])
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        ("trian.py", ("there is no script", "did you mean", "train.py")),
        ("train", ("did you mean train.py?",)),
        ("pkg.train", ("for a module write -m pkg.train",)),
        ("folder", ("is no file", "name the Python file")),
        ("package", ("for the package write -m package",)),
        ("sh", ("chaoskit watch -- sh",)),
        ("gone/x.py", ("there is no script", "seen from")),
        ("a\0b", ("\\x00",)),
        ("", ("is no file",)),
    ],
)
def test_a_script_that_is_not_there(
    script: str, parts: tuple[str, ...], found: Callable[[], Found], tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").touch()
    said = problem(ProgramOptions(script), found)
    assert [part for part in parts if part not in said] == []


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (ProgramOptions(module="train.py"), ("must be the dotted name", "without -m")),
        (ProgramOptions(module="a-b"), ("must be the dotted name",)),
        (ProgramOptions(module="no_such_module_here.train"), ("there is no module no_such_module_here",)),
        (ProgramOptions("train.py", "pkg"), ("give one of the two",)),
        (ProgramOptions("train.py", launcher="slurm"), ("expected forkserver, torchrun or command",)),
        (ProgramOptions("train.py", launcher="command"), ("train.py stands before them",)),
        (ProgramOptions(launcher="command"), ("no command behind --",)),
        (ProgramOptions(launcher="command", behind=("no-such-cmd", "x")), ("there is no such command",)),
        (
            ProgramOptions(launcher="command", behind=("/nonexistent/mpirun", "-n", "2", "python", "p.py")),
            ("/nonexistent/mpirun: there is no such command", "that you may execute"),
        ),
        (ProgramOptions(launcher="command", behind=("", "x")), ("there is no such command",)),
        (ProgramOptions(launcher="command", behind=("..", "x")), ("there is no such command",)),
        (
            ProgramOptions(launcher="command", behind=("./train.py", "--e", "3")),
            ("a script goes before --: chaoskit watch ./train.py -- --e 3",),
        ),
        (ProgramOptions(launcher="command", behind=("sh", "run")), ("no Python program", "{rank}")),
    ],
)  # fmt: skip
def test_each_other_mistake(
    options: ProgramOptions, parts: tuple[str, ...], found: Callable[[], Found], tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    said = problem(options, found)
    assert [part for part in parts if part not in said] == []


@pytest.mark.parametrize(
    ("words", "asked", "expected", "part"),
    [
        (("torchrun", "--nproc-per-node", "2", "x.py", "--nproc-per-node", "9"), None, 2, ""),
        (("torchrun", "--nnodes=2", "--nproc-per-node=4", "x.py"), None, 8, ""),
        (("mpirun", "-n", "3", "python", "x.py"), "3", 3, ""),
        (("mpirun", "-n", "3", "python", "x.py"), "4", None, "--ranks 4: but the command starts 3"),
        (("torchrun", "--nproc-per-node", "auto", "x.py"), None, None, "add --ranks N"),
        (("torchrun", "--nproc-per-node", "auto", "x.py"), "2", 2, ""),
        (("sh", "run.sh", "{rank}", "x"), "2", 2, ""),
        (("sh", "run.sh", "{rank}", "x"), "none", None, "--ranks 'none'"),
    ],
)
def test_a_command_says_itself_how_many_it_starts(
    words: tuple[str, ...], asked: str | None, expected: int | None, part: str, found: Callable[[], Found]
) -> None:
    here = found()
    ranks = read_ranks(asked, Workload(words[0], kind="command", args=words), here)
    said = "".join(str(p) for p in here.problems)
    assert (bool(said), part in said) == (bool(part), True)
    if not part:
        assert ranks == expected


def test_a_script_gets_the_ranks_that_are_asked_for(found: Callable[[], Found]) -> None:
    launchers: tuple[Launcher, ...] = ("forkserver", "torchrun")
    assert launchers
    assert read_ranks("3", Workload("x.py", kind="script"), found()) == 3
    assert read_ranks(None, None, found()) is None
