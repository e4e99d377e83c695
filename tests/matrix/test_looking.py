"""Each program of the user's is looked at once: what is kept of that, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaoskit import engine
from chaoskit.engine import Look
from chaoskit.errors import ChaoskitError
from chaoskit.matrix import looking
from chaoskit.matrix.batch import Bench
from chaoskit.matrix.keeping import Kept
from chaoskit.matrix.request import MatrixRequest, Silent
from chaoskit.model import Outcome, Verdict, Workload
from chaoskit.request import RunRequest
from chaoskit.scenario import select
from chaoskit.scenario.survey import Seen, Survey

Judged = Callable[..., Verdict]


class Heard(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def program_started(self, name: str) -> None:
        self.said.append(name)

    def program_ended(self, name: str, broken: str) -> None:
        self.said.append(broken)


class Program:
    """A script, and what an engine that starts nothing tells of it."""

    def __init__(self, folder: Path, verdict: Verdict) -> None:
        self.folder, self.verdict, self.history = folder, verdict, ""
        self.workload = Workload("train.py", kind="script", target=str(folder / "train.py"))
        self.interrupted = False
        (folder / "train.py").write_text("A = 1\n")

    def look(self, request: RunRequest, seen: Seen) -> tuple[dict[Workload, Look], bool]:
        assert request.program is not None and request.runs_dir == self.folder / "matrix" / "runs"
        arm = request.runs_dir / "1" / "survey" / "control"
        arm.mkdir(parents=True, exist_ok=True)
        (arm / "history.jsonl").write_text(self.history)
        return {request.program: Look(self.verdict, arm)}, self.interrupted

    def looked_at(self) -> tuple[Seen, list[str], bool]:
        """Look as a matrix does that goes on in the same folder."""
        folder, heard = self.folder / "matrix", Heard()
        folder.mkdir(exist_ok=True)
        run = RunRequest(tuple(select(["rank-stopped", "rank-slow"])), program=self.workload, seed=5)
        with Kept.open(folder) as kept:
            bench = Bench(MatrixRequest(run), 5, "2.13.0", folder, kept, heard)
            looking.look(bench)
        return bench.seen, heard.said, bench.interrupted


@pytest.fixture
def program(tmp_path: Path, verdict: Judged, monkeypatch: pytest.MonkeyPatch) -> Program:
    found = Program(tmp_path, verdict(outcome=Outcome.COMPLETED, bound_s=None, latency_s=None))
    monkeypatch.setattr(engine, "look", found.look)
    return found


def test_it_is_looked_at_once_and_again_when_it_changes(program: Program) -> None:
    seen, said, _ = program.looked_at()
    assert seen.surveys == {program.workload: Survey()} and said == ["train.py", ""]
    again, said, _ = program.looked_at()
    assert again == seen and said == []
    (program.folder / "train.py").write_text("A = 2\n")
    assert program.looked_at()[1] == ["train.py", ""]


def test_a_look_during_which_the_program_changed_is_not_kept(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it was put back: nobody knows what was looked at."""

    def look(request: RunRequest, seen: Seen) -> tuple[dict[Workload, Look], bool]:
        for text in ("A = 2\n", "A = 1\n"):
            (program.folder / "train.py").write_text(text)
        return program.look(request, seen)

    monkeypatch.setattr(engine, "look", look)
    for _ in range(2):
        assert program.looked_at()[1] == ["train.py", ""]


def test_a_history_that_is_gone_or_damaged_is_not_used(program: Program) -> None:
    program.looked_at()
    (history,) = program.folder.glob("matrix/runs/**/history.jsonl")
    history.write_text("not a line of ours\n")
    assert program.looked_at()[1] == ["train.py", ""]
    history.unlink()
    assert program.looked_at()[1] == ["train.py", ""]
    program.history = "{"
    history.unlink()
    with pytest.raises(ChaoskitError, match="cannot be read again"):
        program.looked_at()


def test_what_does_not_complete_is_told_and_not_kept(program: Program, verdict: Judged) -> None:
    program.verdict = verdict(outcome=Outcome.FAILED, reason="it raised")
    for _ in range(2):
        seen, said, _ = program.looked_at()
        (why,) = seen.broken.values()
        assert not seen.surveys and said == ["train.py", why]
        assert why == "the program does not complete without any fault (failed): it raised"
    program.interrupted = True
    seen, said, interrupted = program.looked_at()
    assert interrupted and seen == Seen() and said == ["train.py"], "cut off is not broken"


def test_of_a_module_it_is_not_known_whether_it_has_changed(program: Program) -> None:
    program.workload = Workload("job", kind="module", target="job")
    assert program.looked_at()[1] == program.looked_at()[1] == ["job", ""]
    assert looking.conditions(RunRequest((), program=program.workload)) == {}


def test_without_a_program_nothing_is_looked_at() -> None:
    run = RunRequest(tuple(select(["rank-stopped"])))
    assert looking.programs_of(run) == () and looking.conditions(run) == {}
