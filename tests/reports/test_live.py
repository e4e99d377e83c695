"""The live table, drawn on a console in memory with a clock of the test's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from chaoskit.model import Outcome, Result, ScenarioResult, Status, Verdict
from chaoskit.reports.live import LiveTable
from chaoskit.request import ArmId


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def arms(count: int) -> tuple[ArmId, ...]:
    return tuple(ArmId(f"scenario-number-{n}", "hardened", "gloo", 1, 1) for n in range(count))


def drawn(table: LiveTable, console: Console, printed: Callable[[Console], str]) -> list[str]:
    before = len(printed(console))
    console.print(table)
    return re.sub(r"\x1b\[[0-9;]*m", "", printed(console)[before:]).splitlines()


def test_running_arms_with_their_time_and_done_ones_with_their_verdict(
    console: Callable[..., Console],
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
) -> None:
    target, clock = console(80), Clock()
    table = LiveTable(target, clock)
    first, second, third = arms(3)
    table.run_started(Path("runs/x"), 7, (first, second, third))
    table.arm_started(first, 12.0)
    table.arm_started(second, 5.0)
    clock.now_s += 1.5
    table.arm_ended(first, verdict())
    table.scenario_ended(result(result=Result.HELD))
    assert [line.split() for line in drawn(table, target, printed)] == [
        "1/3 arms done, 1 running, 1 held".split(),
        "scenario-number-1/hardened 1.5 of 5.0 s".split(),
        "✓ scenario-number-0/hardened failed, 87 ms of 2 s, rank 1 killed".split(),
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 10, 24])
@pytest.mark.parametrize(("running", "done"), [(0, 0), (5, 60), (64, 0), (64, 64)])
def test_it_never_outgrows_the_terminal(
    width: int,
    height: int,
    running: int,
    done: int,
    console: Callable[..., Console],
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
) -> None:
    target = console(width, height)
    table = LiveTable(target, Clock())
    table.run_started(Path("runs/x"), 7, arms(running + done))
    for arm in arms(running):
        table.arm_started(arm, 3.0)
    for arm in arms(running + done)[running:]:
        table.arm_ended(arm, verdict(status=Status.FAIL, outcome=Outcome.HUNG))
    lines = drawn(table, target, printed)
    assert len(lines) <= max(1, height - 1)
    assert all(cell_len(line) <= width for line in lines)
    shown = len([line for line in lines if "of 3.0 s" in line])
    if height > 3:
        assert any("rank 1" in line or "hung" in line for line in lines) is (done > 0)
    if height > 2 and shown < running:
        assert f"and {running - shown} more running" in "\n".join(lines)


@settings(max_examples=50, deadline=None)
@given(text=st.text(st.characters()), encoding=st.sampled_from(["utf-8", "ascii"]))
def test_hostile_names_take_one_line_each(
    text: str,
    encoding: str,
    console: Callable[..., Console],
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
) -> None:
    target = console(40, encoding=encoding)
    table = LiveTable(target, Clock())
    table.run_started(Path("runs/x"), 7, (ArmId(text, text, "gloo", 1, 1),))
    table.arm_started(ArmId(text, text, "gloo", 1, 1), 3.0)
    table.arm_ended(ArmId("other", text, "gloo", 1, 1), verdict(status=Status.FAIL, reason=text))
    lines = drawn(table, target, printed)
    assert len(lines) == 3
    assert all(line.isprintable() and cell_len(line) <= 40 for line in lines)


def test_on_a_terminal_it_draws_and_leaves_nothing_behind(
    console: Callable[..., Console], printed: Callable[[Console], str]
) -> None:
    target = console(80, terminal=True)
    with LiveTable(target, Clock()) as table:
        table.run_started(Path("runs/x"), 7, arms(2))
        table.arm_started(arms(1)[0], 3.0)
    text = printed(target)
    assert "0/2 arms done" in text
    assert text.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))
