"""Progress in a pipe: one line per finished arm and scenario."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from chaoskit.model import Outcome, Result, ScenarioResult, Status, Verdict
from chaoskit.reports.console import ReportConsole
from chaoskit.reports.progress_lines import ProgressLines, StartLine
from chaoskit.request import ArmId, HearsOfWaits

ARM = ArmId("rank-killed", "hardened", "gloo", 1, 1)


def test_one_line_each(
    console: Callable[..., Console],
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
) -> None:
    target = console(40)
    with ProgressLines(target) as lines:
        lines.run_started(Path("runs/x"), 7, (ARM, ARM))
        lines.arm_started(ARM, 5.0)
        lines.arm_ended(ARM, verdict())
        failed = verdict(status=Status.FAIL, outcome=Outcome.HUNG, latency_s=None, reason="rank 0\nwaits")
        lines.arm_ended(ArmId("rank-killed", "hardened", "gloo", 2, 2), failed)
        lines.scenario_ended(result(result=Result.NOT_HELD))
    assert printed(target) == (
        "2 arms, seed 7, run directory runs/x\n"
        "[1/2] pass         rank-killed/hardened  failed, 87 ms of 2 s, rank 1 killed\n"
        "[2/2] fail         rank-killed/hardened [2] (attempt 2)  "
        "hung, bound 2 s, rank 1 killed: rank 0\\nwaits\n"
        "rank-killed not held\n"
    )


def test_a_long_reason_is_cut(
    console: Callable[..., Console], printed: Callable[[Console], str], verdict: Callable[..., Verdict]
) -> None:
    target = console(400)
    with ProgressLines(target) as lines:
        lines.arm_ended(ARM, verdict(status=Status.FAIL, reason="x" * 300))
    assert printed(target).endswith(": " + "x" * 119 + "…\n")


@settings(deadline=None)
@given(text=st.text(st.characters()))
def test_hostile_text_stays_on_its_line(
    text: str,
    console: Callable[..., Console],
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
) -> None:
    target = console(40, encoding="ascii")
    ProgressLines(target).arm_ended(ArmId(text, text, "gloo", 1, 1), verdict(status=Status.FAIL, reason=text))
    shown = printed(target)
    assert shown.count("\n") == 1
    assert shown.rstrip("\n").isprintable()


def test_a_reader_that_goes_away_ends_the_lines_not_the_run(verdict: Callable[..., Verdict]) -> None:
    class Gone:
        encoding = "utf-8"
        written = 0

        def write(self, _text: str) -> int:
            self.written += 1
            raise BrokenPipeError(32, "Broken pipe")

        def flush(self) -> None: ...

        def isatty(self) -> bool:
            return False

    stream = Gone()
    lines = ProgressLines(ReportConsole(file=stream, width=80))  # type: ignore[arg-type]
    for _ in range(3):
        lines.arm_ended(ARM, verdict())
    assert stream.written == 1


def test_a_watch_tells_at_once_who_is_waited_for_and_again_while_it_lasts(
    console: Callable[..., Console], printed: Callable[[Console], str]
) -> None:
    target = console(40)
    line = StartLine(target, "train.py")
    assert isinstance(line, HearsOfWaits)
    said = "ranks 0, 2 wait in all_reduce #3 for rank 1, which computes at train.py:12\x1b"
    line.arm_waits(ArmId("watch", "watch", "gloo", 1, 1), said, time.monotonic() - 70.0)
    shown = printed(target)
    assert shown.startswith(
        "watch: ranks 0, 2 wait in all_reduce #3 for rank 1, which computes at train.py:12"
    )
    end = "if that never ends, press Ctrl-C for a report; --timeout bounds it"
    told = re.search(rf"for (\d+) s now: {end}", shown)
    assert told and int(told[1]) >= 70
    assert "\x1b" not in shown
    line._still_running(120.0)
    assert printed(target).count("wait in all_reduce #3") == 2
    line.arm_waits(ArmId("watch", "watch", "gloo", 1, 1), "", 0.0)
    line._still_running(180.0)
    assert printed(target).count("wait in all_reduce #3") == 2
    assert printed(target).count("still watching train.py") == 2
