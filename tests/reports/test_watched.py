"""The report on a watched program: what it says, at any width, of hostile output too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from chaoskit.model import Culprit, Kind, Operation, Outcome, RankEnd, ScenarioResult, Status, Verdict
from chaoskit.reports.judged import Judged
from chaoskit.reports.watched import Excerpt, Watched, print_watched
from chaoskit.request import WATCH
from chaoskit.verdict import Sureness

Make = Callable[..., Console]
OUTPUT = Path("runs/x/watch/watch")


@pytest.fixture(scope="session")
def seen(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult], judged: Callable[..., Judged]
) -> Callable[..., Judged]:
    """Make a watch with one verdict."""

    def make(**changes: object) -> Judged:
        base = {
            "scenario": WATCH, "arm": WATCH, "profile": "torch-defaults", "bound_s": None,
            "production_bound_s": None, "culprits": (), "victims": (), "kind": None, "where": "",
            "rerun": "chaoskit watch train.py --ranks 4",
        }  # fmt: skip
        return judged(result(verdict(**{**base, **changes})))

    return make


def text_of(judged: Judged, watched: Watched, target: Console, printed: Callable[[Console], str]) -> str:
    print_watched(judged, watched, target)
    return printed(target)


def test_a_program_that_passes(
    seen: Callable[..., Judged], console: Make, printed: Callable[[Console], str]
) -> None:
    done = tuple(RankEnd(n, 0, 3.1, Operation("all_reduce", "default", 9)) for n in range(4))
    judged = seen(
        outcome=Outcome.COMPLETED, latency_s=3.25, reason="all ranks ended 0, result: unchecked", ranks=done,
        stragglers=(Culprit("rank", "3"),), notes=("rank 3 was waited for in 18 of 20 steps",),
        not_applicable=("TORCH_NCCL_X",),
    )  # fmt: skip
    assert text_of(judged, Watched("train.py", (), OUTPUT), console(80), printed) == (
        "✓ train.py  completed in 3.25 s  [4 ranks, gloo, torch-defaults]\n"
        "    result: all ranks ended 0, result: unchecked\n"
        "    the others waited for: rank 3\n"
        "    note: rank 3 was waited for in 18 of 20 steps\n"
        "    not applicable: TORCH_NCCL_X (on gloo)\n"
        "    output of the ranks: runs/x/watch/watch/rank<N>/\n"
        "seed 7, torch 2.13.0\n"
        "run directory: runs/20260101-7\n"
        "report: chaoskit report runs/20260101-7 --html\n"
    )


def test_a_program_that_hangs(
    seen: Callable[..., Judged], console: Make, printed: Callable[[Console], str]
) -> None:
    ranks = tuple(
        RankEnd(n, None, None, Operation("all_reduce", "default" if n else "tp", 8 if n == 2 else 9))
        for n in range(4)
    )
    judged = seen(
        status=Status.FAIL, outcome=Outcome.HUNG, kind=Kind.NEVER_ENTERED, culprits=(Culprit("rank", "2"),),
        victims=(0, 1, 3), where="train.py:31", reason="rank 2 never entered all_reduce #9", ranks=ranks,
        cause="rank 2 never entered all_reduce #9; the others waited in it", sureness=Sureness.CERTAIN,
        evidence=("rank 2 was in its own code at the deadline",),
    )  # fmt: skip
    excerpt = Excerpt(
        "rank 2", OUTPUT / "rank2/stderr.log", ("Traceback", "\tboom \x1b[2J\x07" + "x" * 900), True
    )
    text = text_of(judged, Watched("train.py", (excerpt,), OUTPUT), console(200), printed)
    assert text.startswith("✗ train.py  fail  hung  rank 2 never entered  [4 ranks, gloo, torch-defaults]\n")
    for line in (
        "    cause (certain): rank 2 never entered all_reduce #9; the others waited in it\n"
        "    evidence: rank 2 was in its own code at the deadline\n"
        "    where: train.py:31\n",
        "    last operation: all_reduce #9 of tp: rank 0; all_reduce #9: ranks 1, 3; all_reduce #8: rank 2\n",
        "    ended: ranks 0-3 ended by chaoskit\n",
        "    suffered from it: ranks 0, 1, 3\n",
        "    the end of what rank 2 printed: runs/x/watch/watch/rank2/stderr.log\n      | Traceback\n",
        "      |     boom \\x1b[2J\\x07xxx",
        "    rerun: chaoskit watch train.py --ranks 4\n",
        "    output and stacks of the ranks: runs/x/watch/watch/rank<N>/\n",
    ):
        assert line in text
    assert "more characters]" in text
    assert "\x1b" not in text


def test_how_ranks_ended_is_said_together(
    seen: Callable[..., Judged], console: Make, printed: Callable[[Console], str]
) -> None:
    ranks = (RankEnd(0, 1, 0.5), RankEnd(1, -9, 0.1), RankEnd(2, 1, 0.7), RankEnd(3, -99, None))
    judged = seen(status=Status.FAIL, outcome=Outcome.FAILED, ranks=ranks)
    text = text_of(judged, Watched("train.py"), console(200), printed)
    assert (
        "ended: ranks 0, 2 exit 1 after 500 ms to 700 ms; rank 1 SIGKILL after 100 ms; rank 3 signal 99\n"
        in text
    )


def test_nothing_judged_and_interrupted(
    result: Callable[..., ScenarioResult], judged: Callable[..., Judged], console: Make,
    printed: Callable[[Console], str],
) -> None:  # fmt: skip
    cut = judged(result(name=WATCH), interrupted=True)
    assert cut.is_watch
    text = text_of(cut, Watched("train.py"), console(80), printed)
    assert text.startswith("train.py: nothing was judged\ninterrupted: what was not finished is not judged\n")


@settings(deadline=None, max_examples=60)
@given(
    text=st.text(max_size=80),
    width=st.sampled_from([40, 80, 200]),
    encoding=st.sampled_from(["utf-8", "ascii"]),
)
def test_hostile_text_stays_text(
    text: str,
    width: int,
    encoding: str,
    seen: Callable[..., Judged],
    console: Make,
    printed: Callable[[Console], str],
) -> None:
    judged = seen(status=Status.FAIL, reason=text, where=text, notes=(text,), rerun=text)
    target = console(width, encoding=encoding)
    shown = text_of(judged, Watched(text, (Excerpt("rank 0", OUTPUT, (text,)),), OUTPUT), target, printed)
    assert all(c == "\n" or c.isprintable() for c in shown)
    copied = ("where: ", "rerun: ", "report: ", "| ", "what rank", "output of", "run directory")
    for line in shown.splitlines():
        assert cell_len(line) <= width or line.strip().startswith(copied)
