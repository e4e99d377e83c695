"""What of a user's program is in the key of its cells, and what keeps them from being kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaoskit.matrix import program
from chaoskit.matrix.program import Programs
from chaoskit.model import Workload


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    (folder / "package").mkdir(parents=True)
    (folder / "train.py").write_text("import helper\n")
    (folder / "helper.py").write_text("A = 1\n")
    (folder / "package" / "deep.py").write_text("B = 1\n")
    (folder / "notes.txt").write_text("one")
    (tmp_path / "run.cfg").write_text("lr: 1")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "part").write_text("1")
    return folder / "train.py"


def seen(script: Path) -> program.Seen:
    above = script.parents[1]
    arguments = ("--steps", "3", f"--config={above / 'run.cfg'}", str(above / "data"), "a\0b")
    return Programs().of(Workload("mine", kind="script", target=str(script), args=arguments))


@pytest.mark.parametrize(
    "changed", ["job/train.py", "job/helper.py", "job/package/deep.py", "job/new.py", "run.cfg", "data/part"]
)
def test_a_change_makes_another_program(script: Path, changed: str) -> None:
    before = seen(script)
    assert before.digest and not before.why_not and seen(script) == before
    (script.parents[1] / changed).write_text("C = 2\n")
    assert seen(script) != before


def test_what_is_no_part_of_the_program_changes_nothing(script: Path) -> None:
    before = seen(script)
    (script.parent / "notes.txt").write_text("two")
    for name, mark in (("runs", "run.json"), ("venv", "pyvenv.cfg")):
        (script.parent / name).mkdir()
        (script.parent / name / mark).write_text("{}")
        (script.parent / name / "copy.py").write_text("D = 1\n")
    assert seen(script) == before


def test_the_current_folder_counts(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = seen(script)
    monkeypatch.chdir(script.parent)
    assert seen(script) != before


@pytest.mark.parametrize("bound", ["FILES_MAX", "BYTES_MAX", "ENTRIES_MAX"])
def test_too_much_to_read_is_not_kept_and_said(
    script: Path, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, bound, 1)
    assert "more than" in seen(script).why_not and not seen(script).digest


def test_a_pipe_among_the_arguments_is_not_waited_for(script: Path) -> None:
    (script.parents[1] / "run.cfg").unlink()
    os.mkfifo(script.parents[1] / "run.cfg")
    assert "not a regular file" in seen(script).why_not


def test_of_modules_and_commands_nothing_can_be_known() -> None:
    for workload in (
        Workload("m", kind="module", target="pkg.train"),
        Workload("c", kind="command", args=("torchrun", "train.py")),
    ):
        assert "cannot be known" in Programs().of(workload).why_not
    assert Programs().of(Workload("ddp-train")) == program.Seen()
