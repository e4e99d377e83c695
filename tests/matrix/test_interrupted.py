"""A matrix that is told to end before any cell was run: it says what is known, and how to go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from chaoskit import engine
from chaoskit.errors import LaunchFailed
from chaoskit.matrix.making import make
from chaoskit.matrix.request import MatrixRequest, Silent
from chaoskit.matrix.values import PROFILE, Mark
from chaoskit.request import RunRequest
from chaoskit.scenario import load_profile, select


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
