"""A matrix that is told to end before any cell was run: it says what is known, and how to go on."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

import pytest

from chaoskit import engine
from chaoskit.errors import LaunchFailed
from chaoskit.matrix import columns
from chaoskit.matrix.batch import Bench
from chaoskit.matrix.keeping import Kept
from chaoskit.matrix.making import make
from chaoskit.matrix.request import MatrixRequest, Silent
from chaoskit.matrix.table import Table
from chaoskit.matrix.values import NONE, PROFILE, Column, Mark
from chaoskit.model import Workload
from chaoskit.request import RunRequest
from chaoskit.scenario import load_profile, select
from chaoskit.secret_shapes import HIDDEN


def asked(tmp_path: Path) -> MatrixRequest:
    scenarios = tuple(select(["rank-stopped"]))
    run = RunRequest(
        scenarios, profile=load_profile("recommended"), seed=5, runs_dir=tmp_path / "runs", jobs=1
    )
    return MatrixRequest(run)


class Ended(Silent):
    """Sends a signal to ourselves at one of the moments in which the engine does not run."""

    def __init__(self, number: signal.Signals, moment: str) -> None:
        self._number, self._moment = number, moment

    def opened(self, folder: Path, seed: int, damaged: int, changed: tuple[str, ...]) -> None:
        self._end("opened")

    def batch_started(self, what: str, to_run: int, kept: int) -> None:
        self._end("batch_started")

    def _end(self, moment: str) -> None:
        if moment == self._moment:
            os.kill(os.getpid(), self._number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", ["opened", "batch_started"])
def test_a_signal_between_two_runs_ends_it_with_a_result(
    tmp_path: Path, number: signal.Signals, moment: str
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    found = make(asked(tmp_path), Ended(number, moment))
    assert found.interrupted and found.effort.run == 0
    assert found.rows[0].mark(PROFILE) is Mark.NOT_RUN
    assert signal.getsignal(signal.SIGTERM) is before


def test_secrets_among_the_arguments_have_to_be_given_again(tmp_path: Path) -> None:
    """The command that is printed is not refused when it is pasted, once ARGS are filled in."""
    program = Workload("train.py", kind="script", target="/x/train.py", args=("--token", "s3cr3t-s3cr3t"))
    request = asked(tmp_path)
    run = dataclasses.replace(request.run, program=program)
    request = dataclasses.replace(request, run=run, behind=("--", "--token", HIDDEN))
    origin = make(request, Ended(signal.SIGTERM, "opened")).origin
    assert origin.resume.endswith(" -- ARGS") and "again" in origin.resume_note
    assert origin.program == f"train.py --token '{HIDDEN}' (launcher forkserver)"
    plain = make(dataclasses.replace(request, behind=("--", "-v")), Ended(signal.SIGTERM, "opened")).origin
    assert plain.resume.endswith(plain.folder) and plain.resume_note == ""


def test_of_two_guards_what_is_the_same_is_run_once(tmp_path: Path) -> None:
    """The profile without the one is the other alone: run twice, they could get opposite marks."""
    request = asked(tmp_path)
    (scenario,), profile = request.run.scenarios, request.run.profile
    assert profile is not None
    two = columns.only(profile, columns.parts_of(profile)[:2], "two")
    request = dataclasses.replace(request, run=dataclasses.replace(request.run, profile=two))
    with Kept.open(tmp_path) as kept:
        table = Table(Bench(request, 5, "2.13.0", tmp_path, kept, Silent()))
    a, b = columns.parts_of(two)
    alone, without = Column("alone", a), Column("without", b)
    wanted = [table.wanted(scenario.name, column) for column in (NONE, PROFILE, alone, without)]
    assert [one.column for one in table.bench._once(wanted)] == [NONE, PROFILE, alone]
    assert table.bench.same == {(scenario.name, without): (scenario.name, alone)}
    table.bench.same.clear()
    assert len(table.bench._once([one for one in wanted if one.column != alone])) == 3, "run by itself"


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_server_that_was_ended_while_loading_is_an_interruption_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    def loading(self: engine._Run, run_dir: Path) -> None:
        self.interrupted = interrupted
        raise LaunchFailed("the fork server did not come up")

    monkeypatch.setattr(engine._Run, "_run_all", loading)
    request = RunRequest(tuple(select(["rank-stopped"])), seed=5, runs_dir=tmp_path)
    if interrupted:
        result = engine.run(request)
        assert result.interrupted and result.scenarios == ()
        found = make(asked(tmp_path))
        assert found.interrupted and found.effort.run == 0
    else:
        with pytest.raises(LaunchFailed):
            engine.run(request)
