"""A program that is changed while cells run, and put back: nothing that was run meanwhile is kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaoskit import engine
from chaoskit.matrix.batch import CHANGED, Bench
from chaoskit.matrix.keeping import Kept
from chaoskit.matrix.program import Programs
from chaoskit.matrix.request import MatrixRequest, Silent
from chaoskit.matrix.table import Table
from chaoskit.matrix.values import NONE
from chaoskit.matrix.watching import Watch
from chaoskit.model import Verdict, Workload
from chaoskit.request import ArmId, RunRequest
from chaoskit.scenario import select
from chaoskit.scenario.survey import Seen, Survey


def rewritten(path: Path, text: str = "B = 2\n") -> None:
    """Change a file, and put all back that can be: text, size, times."""
    before, found = path.read_text(), path.stat()
    path.write_text(text)
    path.write_text(before)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    (folder / "deep").mkdir(parents=True)
    (folder / "train.py").write_text("A = 1\n")
    (folder / "deep" / "model.py").write_text("A = 1\n")
    (folder / "run.cfg").write_text("lr: 1\n")
    (folder / "now").symlink_to(folder / "deep", target_is_directory=True)
    return folder


def program(job: Path, script: str = "train.py") -> Workload:
    return Workload(script, kind="script", target=str(job / script), args=(str(job / "run.cfg"),))


def what_a_run_writes(job: Path) -> None:
    for name in ("__pycache__/train.pyc", "logs/a.txt", "notes.txt", ".hidden/x.py", "deep/__pycache__/x.py"):
        (job / name).parent.mkdir(exist_ok=True)
        (job / name).write_text("x")


def new_file(job: Path) -> None:
    (job / "new.py").write_text("")


def another_folder(job: Path) -> None:
    (job / "now").unlink()
    (job / "now").symlink_to(job / "deep", target_is_directory=True)


@pytest.mark.parametrize(
    ("script", "does", "edited"),
    [
        ("train.py", lambda job: rewritten(job / "train.py"), True),
        ("train.py", lambda job: rewritten(job / "deep" / "model.py"), True),
        ("train.py", new_file, True),
        ("now/model.py", another_folder, True),
        ("train.py", lambda job: rewritten(job / "run.cfg"), False),
        ("train.py", what_a_run_writes, False),
    ],
)
def test_what_is_touched_counts_also_if_it_is_put_back(
    job: Path, script: str, does: Callable[[Path], None], edited: bool
) -> None:
    mine, programs = program(job, script), Programs()
    watch = Watch((mine, Workload("ddp-train")))
    programs.of(mine)
    watch.look()
    assert watch.edited == () and programs.unchanged(mine)
    does(job)
    watch.look()
    assert watch.edited == ((script,) if edited else ()) and programs.unchanged(mine) is not edited


def test_a_new_file_that_was_seen_counts_when_it_is_gone_again(job: Path) -> None:
    mine, programs = program(job), Programs()
    watch = Watch((mine,))
    programs.of(mine)
    new_file(job)
    watch.look()
    assert not programs.unchanged(mine)
    (job / "new.py").unlink()
    watch.look()
    assert watch.edited == ("train.py",) and not programs.unchanged(mine)


def test_files_that_arguments_name_must_be_equal_when_a_cell_ends(job: Path) -> None:
    mine, programs = program(job), Programs()
    programs.of(mine)
    (job / "run.cfg").write_text("lr: 2\n")
    assert not programs.unchanged(mine)
    (job / "run.cfg").write_text("lr: 1\n")
    assert programs.unchanged(mine), "a program may write its own output anew"


def nothing(job: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("does", "kept", "edited"),
    [
        (nothing, 2, ()),
        (what_a_run_writes, 2, ()),
        (lambda job: rewritten(job / "train.py"), 1, ("train.py",)),
        (lambda job: (job / "run.cfg").write_text("lr: 2\n"), 1, ()),
    ],
)
def test_a_cell_during_which_the_program_changed_is_not_kept(
    job: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Callable[..., Verdict],
    does: Callable[[Path], None],
    kept: int,
    edited: tuple[str, ...],
) -> None:
    """The first cell has ended before, so it is kept. The engine is one that starts nothing."""

    def run(request: RunRequest, observer: engine.Observer, seen: Seen) -> object:
        observer.run_started(tmp_path / "runs" / "1", 5, ())
        for scenario in request.scenarios:
            arm = ArmId(scenario.name, "control", "gloo", 1, 1)
            observer.arm_started(arm, 9.0)
            if scenario.name == "rank-slow":
                does(job)
            observer.arm_ended(arm, verdict(scenario=scenario.name))
        return SimpleNamespace(interrupted=False)

    monkeypatch.setattr(engine, "run", run)
    mine = program(job)
    asked = MatrixRequest(RunRequest(tuple(select(["rank-stopped", "rank-slow"])), program=mine, seed=5))
    with Kept.open(tmp_path) as cells:
        bench = Bench(asked, 5, "2.13.0", tmp_path, cells, Silent())
        bench.seen = Seen({mine: Survey()})
        table = Table(bench)
        bench.run("no guard", [table.wanted(name, NONE) for name in table.scenarios])
    assert len((tmp_path / "cells.jsonl").read_bytes().splitlines()) == kept
    assert bench.watch.edited == edited
    assert bench.not_kept == ({"rank-slow": CHANGED} if kept < 2 and not edited else {})
