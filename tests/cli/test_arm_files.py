"""What a report reads of an arm: the end of any output, whatever a program printed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.cli.arm_files import LINES_MAX, last_lines, watched
from chaoskit.model import Culprit, Outcome, RankEnd, Result, ScenarioResult, Status, Verdict
from chaoskit.reports.judged import Judged
from chaoskit.request import WATCH


@pytest.fixture
def log(tmp_path: Path) -> Callable[[bytes], Path]:
    def make(data: bytes) -> Path:
        path = tmp_path / "stderr.log"
        path.write_bytes(data)
        return path

    return make


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", ()),
        (b"\n \n\r\n", ()),
        (b"a\n\nb", ("a", "b")),
        (b"\x1b[31mred\x1b[0m\x1b[K\n", ("red",)),
        (b"10%\r50%\r100%\nafter\r\n", ("100%", "after")),
        (b"\xff\xfe\n", ("\\xff\\xfe",)),
        ("é\n".encode(), ("é",)),
        (b"\x1b]0;title\x07\n", ("\x1b]0;title\x07",)),  # made safe by who prints it
    ],
)
def test_the_last_lines(data: bytes, lines: tuple[str, ...], log: Callable[[bytes], Path]) -> None:
    assert last_lines(log(data)) == (lines, False)


def test_much_output_is_cut_and_says_so(log: Callable[[bytes], Path]) -> None:
    lines, cut = last_lines(log(b"".join(b"line %d\n" % n for n in range(100_000))))
    assert (len(lines), lines[-1], cut) == (LINES_MAX, "line 99999", True)
    (line,), cut = last_lines(log(b"x" * 1_000_000))
    assert (set(line), len(line) < 20_000, cut) == ({"x"}, True, True)


@given(data=st.binary(max_size=300))
def test_any_bytes_can_be_read(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("log") / "f"
    path.write_bytes(data)
    lines, _ = last_lines(path)
    assert all(line.strip() and "\n" not in line for line in lines)


def test_what_is_no_file_has_no_lines(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "absent", ".", "bad\0name"):
        assert last_lines(tmp_path / name) == ((), False)


# ---------------------------------------------------------------- whose output


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    folder = tmp_path / WATCH / WATCH
    for rank in range(4):
        (folder / f"rank{rank}").mkdir(parents=True)
        (folder / f"rank{rank}" / "stdout.log").write_text(f"out {rank}\n")
        (folder / f"rank{rank}" / "stderr.log").write_text(f"err {rank}\n" if rank != 3 else "")
    (folder / "plan.json").write_text("{}")
    return folder


def judged(
    run_dir: Path, status: Status, culprits: tuple[str, ...] = (), ends: tuple[RankEnd, ...] = ()
) -> Judged:
    verdict = Verdict(
        WATCH, WATCH, 1, 1, "gloo", "torch-defaults", status, "", Outcome.FAILED,
        culprits=tuple(Culprit("rank", c) for c in culprits), ranks=ends,
    )  # fmt: skip
    return Judged(run_dir, 7, "", (ScenarioResult(WATCH, "gloo", Result.HELD, "", (verdict,)),), 1.0)


def shown(of: Judged) -> list[tuple[str, tuple[str, ...]]]:
    return [(e.who, e.lines) for e in watched(of).excerpts]


def test_the_culprits_speak_first(arm: Path, tmp_path: Path) -> None:
    assert shown(judged(tmp_path, Status.FAIL, ("2",))) == [("rank 2", ("err 2",))]
    assert shown(judged(tmp_path, Status.FAIL, ("3",))) == [("rank 3", ("out 3",))]  # nothing on stderr
    assert len(shown(judged(tmp_path, Status.FAIL, ("0", "1", "2")))) == 2
    assert shown(judged(tmp_path, Status.PASS, ("2",))) == []


def test_the_same_words_are_shown_once(arm: Path, tmp_path: Path) -> None:
    for rank in (0, 1):
        (arm / f"rank{rank}" / "stderr.log").write_text("SyntaxError\n")
    assert shown(judged(tmp_path, Status.FAIL, ("0", "1"))) == [("rank 0", ("SyntaxError",))]


def test_without_a_culprit_who_failed_first(arm: Path, tmp_path: Path) -> None:
    ends = (RankEnd(0, 0, 0.1), RankEnd(1, 1, 3.0), RankEnd(2, -9, 2.0), RankEnd(3, None, 1.0))
    assert shown(judged(tmp_path, Status.INCONCLUSIVE, ends=ends)) == [("rank 2", ("err 2",))]


def test_a_launcher_that_started_no_rank(arm: Path, tmp_path: Path) -> None:
    (arm / "launcher").mkdir()
    (arm / "launcher" / "stderr.log").write_text("no such option\n")
    assert shown(judged(tmp_path, Status.INCONCLUSIVE)) == [("the launcher", ("no such option",))]


def test_where_the_output_is(arm: Path, tmp_path: Path) -> None:
    of = judged(tmp_path, Status.PASS)
    assert watched(of).output == arm
    assert watched(of, "train.py").program == "train.py"
    assert watched(of).program == "the program"  # that plan says nothing
    assert watched(judged(arm, Status.PASS)).output == arm  # the arm's own folder was judged
    for log in arm.glob("*/*.log"):
        log.unlink()
    assert watched(of).output is None  # another launcher has what they printed
    assert watched(judged(tmp_path / "gone", Status.FAIL, ("1",))).excerpts == ()
