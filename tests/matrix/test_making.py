"""A whole matrix on real ranks: cells, the smallest set, going on after an end, and after an interruption."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from real_runs import chaoskit as started

from chaoskit.errors import ExitCode, InvalidInput
from chaoskit.matrix import asking, keeping
from chaoskit.matrix.making import make
from chaoskit.matrix.request import MatrixRequest, Silent
from chaoskit.matrix.values import NONE, PROFILE, Column, Mark, Matrix
from chaoskit.model import Workload
from chaoskit.reports.matrix.exit_code import exit_code
from chaoskit.request import RunRequest
from chaoskit.scenario import load_profile, select

PROFILE_TEXT = """\
name: mine
guards:
  timeouts: {init: 120s, collective: 120s, store: 120s}
  collective_check: {hold: 20s, settle: 5s, exit_wait: 30s}
  store_outside: {silent: 30s}
"""
SCENARIOS = ("dtypes-differ",)
"""A silent corruption: nothing hangs."""
PATIENT = 1.0
"""Where nothing hangs, nothing is shortened: a check in a hurry goes on without a rank that has no core."""

Making = Callable[..., Matrix]


@dataclass
class Heard(Silent):
    batches: list[tuple[str, int, int]] = field(default_factory=list)
    damaged: int = 0
    changed: tuple[str, ...] = ()

    def opened(self, folder: Path, seed: int, damaged: int, changed: tuple[str, ...]) -> None:
        self.damaged, self.changed = damaged, changed

    def batch_started(self, what: str, to_run: int, kept: int) -> None:
        self.batches.append((what, to_run, kept))


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(PROFILE_TEXT)
    return file


@pytest.fixture
def making(shared_servers: None, tmp_path: Path, profile: Path) -> Making:
    def run(observer: Heard, **fields: object) -> Matrix:
        asked: dict[str, object] = {
            "scenarios": tuple(select(SCENARIOS)), "profile": load_profile(str(profile)), "seed": 5,
            "runs_dir": tmp_path / "runs", **fields,
        }  # fmt: skip
        folder = asked.pop("folder", None)
        request = MatrixRequest(RunRequest(**asked), folder=folder)  # type: ignore[arg-type]
        return make(request, observer)

    return run


@pytest.mark.timeout(400)
def test_a_matrix_confirms_a_set_and_runs_nothing_again(making: Making, profile: Path) -> None:
    """The main path, as small as it can be: a contradiction of two takes a third rank."""
    profile.write_text("name: one\nguards:\n  collective_check: {hold: 20s, settle: 5s, exit_wait: 30s}\n")
    found = making(Heard(), profile=load_profile(str(profile)), ranks=3, time_scale=PATIENT)
    marks = {cell.column.name: cell.mark for cell in found.rows[0].cells}
    assert marks["none"] is Mark.BITES and marks["without-collective_check"] is Mark.NOT_HELD
    assert marks["profile"] is marks["alone-collective_check"] is marks["set-1"] is Mark.HELD
    assert found.smallest.confirmed == ("collective_check",) and not found.interrupted

    again = Heard()
    folder = Path(found.origin.folder)
    same = making(again, profile=load_profile(str(profile)), ranks=3, time_scale=PATIENT, folder=folder)
    assert {to_run for _, to_run, _ in again.batches} == {0} and not again.changed
    assert (same.rows, same.smallest, same.worth) == (found.rows, found.smallest, found.worth)


@pytest.mark.nightly
def test_a_matrix_and_its_going_on(making: Making) -> None:
    heard = Heard()
    found = making(heard, time_scale=PATIENT)
    (corrupted,) = found.rows
    marks = {cell.column.name: cell.mark for cell in corrupted.cells}
    assert marks["none"] is Mark.BITES
    assert marks["profile"] is marks["alone-collective_check"] is marks["without-timeouts"] is Mark.HELD
    assert marks["alone-timeouts"] is marks["without-collective_check"] is Mark.NOT_HELD
    assert marks["alone-store_outside"] is marks["without-store_outside"] is Mark.NOT_APPLICABLE

    assert found.smallest.confirmed == ("collective_check",) and found.smallest.tried[-1].scenarios == 1
    worths = {w.part: w.matters for w in found.worth}
    assert worths == {"timeouts": False, "collective_check": True, "store_outside": None}
    assert not found.gaps and not found.interrupted and found.effort.kept == 0
    held = corrupted.cell(PROFILE)
    assert held is not None and held.named is True and held.latency_s is not None
    folder = Path(found.origin.folder)
    assert json.loads((folder / held.folder / "verdict.json").read_text())["status"] == "pass"

    again = Heard()
    same = making(again, folder=folder, time_scale=PATIENT)
    assert {to_run for _, to_run, _ in again.batches} == {0} and not again.changed
    assert (same.rows, same.smallest, same.worth) == (found.rows, found.smallest, found.worth)
    assert same.effort.run == 0 and same.effort.kept == found.effort.run

    lines = (folder / keeping.FILE).read_bytes().splitlines(keepends=True)
    (folder / keeping.FILE).write_bytes(b"".join([lines[0][:-9] + b"\n", *lines[1:]]))
    third = Heard()
    mended = making(third, folder=folder, time_scale=PATIENT)
    assert third.damaged == 1 and sum(to_run for _, to_run, _ in third.batches) == 1
    assert [[c.mark for c in r.cells] for r in mended.rows] == [[c.mark for c in r.cells] for r in found.rows]


def test_a_program_that_is_none_is_run_once_and_nothing_is_said_of_it(making: Making, tmp_path: Path) -> None:
    script = tmp_path / "once.py"
    script.write_text("raise SystemExit('no data')\n")
    program = Workload("once.py", kind="script", target=str(script))
    heard, scenarios = Heard(), tuple(select(["rank-stopped", "rank-slow"]))
    found = making(heard, scenarios=scenarios, program=program, ranks=2)
    assert {cell.mark for row in found.rows for cell in row.cells} <= {
        Mark.INCONCLUSIVE,
        Mark.NOT_RUN,
        Mark.SKIPPED,
        Mark.NOT_APPLICABLE,
    }
    assert found.effort.run == 0 and found.effort.sum_s == 0.0 and not found.interrupted
    (broken,) = found.broken
    assert found.not_known == broken.why and found.smallest.why_not == f"not known: {broken.why}"
    assert found.worth == () and list(Path(broken.folder).iterdir())
    assert found.origin.program == "once.py (launcher forkserver)"
    assert {to_run for _, to_run, _ in heard.batches} <= {0}
    assert not any(note.startswith("skipped") for note in found.notes)


def test_of_a_program_that_changes_meanwhile_nothing_is_said(making: Making, tmp_path: Path) -> None:
    script = tmp_path / "once.py"
    script.write_text("raise SystemExit('no data')\n")

    class Editing(Heard):
        def program_ended(self, name: str, broken: str) -> None:
            text = script.read_text()
            script.write_text("raise SystemExit('other data')\n")
            script.write_text(text)  # put back: what was run meanwhile is of nobody knows which text

    program = Workload("once.py", kind="script", target=str(script))
    found = making(Editing(), program=program, ranks=2)
    assert found.edited == ("once.py",)
    assert found.not_known.startswith("once.py changed while the matrix ran: run it again; --resume takes")
    assert found.smallest.why_not == f"not known: {found.not_known}" and found.worth == ()
    assert exit_code(found) is ExitCode.INCONCLUSIVE


PROGRAM = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_which_guard_holds_which_fault_on_my_program(shared_servers: None, tmp_path: Path) -> None:
    """Interrupted after its first cell, gone on with, and once more after the program has changed."""
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "mine.yaml").write_text("name: mine\nguards:\n  fail_fast: {}\n  group_kill: {}\n")
    asked = ("uncaught-exception", "rank-slow", "--script", "train.py", "--profile", "mine.yaml")
    with started("matrix", *asked, "--seed", "5", "--jobs", "1", folder=tmp_path) as command:
        command.wait_until(lambda: len(kept_lines(tmp_path)) >= 2)  # the look at the program, and a cell
        os.kill(command.process.pid, signal.SIGINT)
        command.process.communicate()
        assert command.left() == [] and command.process.returncode == 130
    first = going_on(tmp_path)
    assert first["effort"]["kept"] >= 1 and not first["interrupted"]  # type: ignore[index]
    again = going_on(tmp_path)
    assert (again["rows"], again["effort"]["run"]) == (first["rows"], 0)  # type: ignore[index]
    looks = list(tmp_path.glob("runs/matrix/*/runs/*/survey"))
    (tmp_path / "train.py").write_text(PROGRAM.replace("12", "13"))
    changed = going_on(tmp_path)
    assert changed["effort"]["kept"] == 0 < changed["effort"]["run"]  # type: ignore[index]
    assert len(looks) == 1 and len(list(tmp_path.glob("runs/matrix/*/runs/*/survey"))) == 2


def going_on(folder: Path) -> dict[str, object]:
    where = str(folders(folder)[0])
    with started("matrix", "--resume", where, "--format", "json", folder=folder) as command:
        out, err = command.process.communicate()
    assert command.process.returncode in (0, 1), err
    found = json.loads(out)
    assert {row["cells"][0]["mark"] for row in found["rows"]} <= {"bites", "not_needed", "quiet"}, found
    return found  # type: ignore[no-any-return]


def test_another_seed_or_profile_makes_other_cells(making: Making, profile: Path) -> None:
    """The first batch of each, as far as the keys go: nothing has to be run for that."""
    from chaoskit.agenda import Agenda
    from chaoskit.matrix.keys import key

    def keys(seed: int, **fields: object) -> set[str]:
        scenarios = tuple(select(["rank-stopped"]))
        asked = RunRequest(scenarios, seed=seed, profile=load_profile(str(profile)), **fields)  # type: ignore[arg-type]
        (item,) = Agenda(asked, seed, isolated=True).items()
        return {key(plan, "2.13.0") for plan in item.plans.values()}

    same = keys(5)
    assert keys(5) == same
    assert not keys(6) & same
    assert not keys(5, time_scale=0.5) & same
    profile.write_text(PROFILE_TEXT.replace("settle: 5s", "settle: 6s"))
    assert len(keys(5) & same) == 1  # that without any guard is the same
    profile.write_text(PROFILE_TEXT.replace("name: mine", "name: other"))
    assert keys(5) == same


def test_a_profile_without_any_guard_is_refused(tmp_path: Path) -> None:
    scenarios = tuple(select(["rank-stopped"]))
    run = RunRequest(scenarios, profile=load_profile("torch-defaults"), runs_dir=tmp_path / "runs")
    with pytest.raises(InvalidInput, match="there is nothing to compare"):
        make(MatrixRequest(run))
    assert not (tmp_path / "runs").exists()


def test_two_scenarios_of_one_name_are_refused(tmp_path: Path) -> None:
    (one,) = select(["rank-stopped"])
    with pytest.raises(InvalidInput, match="two scenarios are called rank-stopped"):
        make(MatrixRequest(RunRequest((one, one), runs_dir=tmp_path / "runs")))


@pytest.mark.nightly
def test_healthy_twins_and_what_a_profile_lacks(making: Making, tmp_path: Path) -> None:
    names = ("dtypes-differ", "uncaught-exception", "rank-late-once")
    bare = tmp_path / "bare.yaml"
    bare.write_text("name: bare\nguards:\n  timeouts: {init: 120s, collective: 120s, store: 120s}\n")
    found = making(Heard(), scenarios=tuple(select(names)), profile=load_profile(str(bare)))
    corrupted, raised, twin = found.rows
    assert corrupted.mark(PROFILE) is Mark.NOT_HELD
    assert {raised.mark(column) for column in found.columns} == {Mark.NOT_NEEDED}
    assert {twin.mark(NONE), twin.mark(PROFILE), twin.mark(Column("alone", "timeouts"))} == {Mark.QUIET}
    assert twin.mark(Column("without", "timeouts")) is Mark.NOT_RUN
    (gap,) = found.gaps
    assert (gap.scenario, gap.helps, gap.changed, gap.alarms) == (
        "dtypes-differ",
        ("collective_check",),
        (),
        (),
    )
    assert twin.mark(Column("plus", "collective_check")) is Mark.QUIET
    assert found.smallest.confirmed is None and "holds nothing" in found.smallest.why_not


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_matrix_that_was_ended_goes_on(
    shared_servers: None, tmp_path: Path, profile: Path, number: signal.Signals
) -> None:
    asked = ("matrix", "dtypes-differ", "rank-stopped", "--profile", str(profile), "--seed", "5")
    with started(*asked, folder=tmp_path) as command:
        command.wait_until(lambda: len(kept_lines(tmp_path)) >= 2)
        before = set(kept_lines(tmp_path))
        os.kill(command.process.pid, number)
        out, _ = command.process.communicate()
        assert command.left() == []
    assert command.process.returncode == (130 if number == signal.SIGINT else -number)
    assert ("go on with: chaoskit matrix --resume" in out) == (number == signal.SIGINT)
    assert set(kept_lines(tmp_path)) >= before
    with started(
        "matrix", "--resume", *map(str, folders(tmp_path)), "--format", "json", folder=tmp_path
    ) as command:
        out, err = command.process.communicate()
    assert command.process.returncode in (0, 1), err
    found = json.loads(out)
    assert found["effort"]["kept"] >= len(before) and found["interrupted"] is False
    assert {row["cells"][0]["mark"] for row in found["rows"]} == {"bites"}
    assert asking.read(folders(tmp_path)[0])["seed"] == "5"


def folders(folder: Path) -> list[Path]:
    return list((folder / "runs" / "matrix").glob("*"))


def kept_lines(folder: Path) -> list[bytes]:
    return [line for one in folders(folder) for line in _lines(one / keeping.FILE)]


def _lines(path: Path) -> list[bytes]:
    """Its whole lines: the last one may be half written."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []
