"""Signs of life in a log: there are some while nothing else is said, and none after the end."""

from __future__ import annotations

import io
import threading

from chaoskit.reports.console import ReportConsole
from chaoskit.reports.heartbeat import Heartbeat
from chaoskit.reports.progress_lines import ProgressLines, StartLine
from chaoskit.request import ArmId


class Heard(io.StringIO):
    """A stream that says when there is a line with a certain word."""

    encoding = "utf-8"

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word
        self.heard = threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._word in text:
            self.heard.set()
        return written


def test_it_beats_until_its_end() -> None:
    beats: list[float] = []
    twice = threading.Event()

    def beat(passed_s: float) -> None:
        beats.append(passed_s)
        if len(beats) == 2:
            twice.set()

    with Heartbeat(beat, every_s=0.01) as heartbeat:
        heartbeat.said()
        assert twice.wait(30)
    heartbeat._thread.join(30)  # on a busy machine its end may take longer than the context waits for it
    assert not heartbeat._thread.is_alive()
    assert beats == sorted(beats)


def test_a_long_run_says_what_runs_the_longest() -> None:
    stream = Heard("2 running, the longest")  # there may be a beat between the two starts
    with ProgressLines(ReportConsole(file=stream, width=80), every_s=0.01) as lines:
        lines.arm_started(ArmId("rank-stopped", "control", "gloo", 1, 1), 125.0)
        lines.arm_started(ArmId("rank-stopped", "hardened", "gloo", 1, 1), 125.0)
        assert stream.heard.wait(30)
    assert "0/0 arms done, 2 running, the longest rank-stopped/control (" in stream.getvalue()
    assert " of 125 s)" in stream.getvalue()


def test_a_watch_says_that_it_still_watches() -> None:
    stream = Heard("still watching train.py after ")
    with StartLine(ReportConsole(file=stream, width=80), "train.py", every_s=0.01):
        assert stream.heard.wait(30)
