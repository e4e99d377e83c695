"""The table that redraws itself while a run goes on. It never grows beyond the terminal.

What runs comes first (the longest running first), then the last ones done, with a third of the room
at least; the counts say what is not shown. Observers are told from the engine's thread, rich redraws
from its own: one lock.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from chaoskit.model import Result, ScenarioResult, Status, Verdict
from chaoskit.reports.console import STYLE, Pen
from chaoskit.reports.progress_lines import arm_name, waiting_line
from chaoskit.reports.wording import culprits_of, latency_of, outcome_of, words
from chaoskit.request import ArmId

REDRAWS_PER_SECOND = 5
_LAST_DONE = 500
"""Finished arms that are remembered for the table; no terminal shows more."""
_NAME_SHARE = 0.55
"""Of the width, at most, for the arm's name."""


@dataclass(frozen=True, slots=True)
class _Running:
    arm: ArmId
    since_s: float
    limit_s: float


@dataclass(frozen=True, slots=True)
class _Look:
    """What one redraw shows, copied under the lock."""

    now_s: float
    total: int
    done: int
    results: Counter[Result]
    running: tuple[_Running, ...]
    last: tuple[tuple[ArmId, Verdict], ...]


class LiveTable:
    """An observer of a run (see chaoskit.request), drawn while its context is open."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._pen = Pen(console)
        self._clock = clock
        self._lock = threading.Lock()
        self._total = 0
        self._longest_name = 0
        self._done = 0
        self._results: Counter[Result] = Counter()
        self._running: dict[ArmId, _Running] = {}
        self._last: deque[tuple[ArmId, Verdict]] = deque(maxlen=_LAST_DONE)
        self._live = Live(self, console=console, refresh_per_second=REDRAWS_PER_SECOND, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # the terminal went away: the run's result does not
            self._live.stop()

    # ------------------------------------------------------------ told by the engine

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        with self._lock:
            self._total = len(arms)
            self._longest_name = max((cell_len(arm_name(arm, self._pen)) for arm in arms), default=0)

    def arm_started(self, arm: ArmId, limit_s: float) -> None:
        with self._lock:
            self._running[arm] = _Running(arm, self._clock(), limit_s)

    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None:
        with self._lock:
            self._running.pop(arm, None)
            self._done += 1
            self._last.append((arm, verdict))

    def arm_waits(self, arm: ArmId, said: str, since_s: float) -> None:
        """Print above the table what has to be known to go on or to stop. From the arm's thread."""
        if said:
            line = waiting_line(arm, said, self._clock() - since_s, self._pen)
            with suppress(OSError, ValueError):
                self._console.print(line)

    def scenario_ended(self, result: ScenarioResult) -> None:
        with self._lock:
            self._results[result.result] += 1

    # ------------------------------------------------------------ drawn by rich

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        look = self._look()
        yield self._pen.fit(_counts(look), options.max_width)
        room = max(0, console.height - 2)  # the counts, and the line the cursor is on
        kept_for_done = min(len(look.last), room // 3)
        running = self._running_lines(look, room - kept_for_done, options.max_width)
        yield from running
        for arm, verdict in look.last[: room - len(running)]:
            yield self._done_line(arm, verdict, options.max_width)

    def _look(self) -> _Look:
        with self._lock:
            return _Look(
                self._clock(),
                max(self._total, self._done + len(self._running)),
                self._done,
                self._results.copy(),
                tuple(sorted(self._running.values(), key=lambda r: r.since_s)),
                tuple(reversed(self._last)),
            )

    def _running_lines(self, look: _Look, room: int, width: int) -> list[Text]:
        fits = len(look.running) <= room
        shown = look.running if fits else look.running[: max(0, room - 1)]
        lines = [self._running_line(r, look.now_s, width) for r in shown]
        if not fits and room > 0:
            more = f"  and {len(look.running) - len(shown)} more running"
            lines.append(self._pen.fit(Text(more, style="dim"), width))
        return lines

    def _running_line(self, running: _Running, now_s: float, width: int) -> Text:
        elapsed = max(0.0, now_s - running.since_s)
        style = "yellow" if elapsed > running.limit_s else "bold"
        return self._line("  ", "", running.arm, f"{elapsed:.1f} of {running.limit_s:.1f} s", style, width)

    def _done_line(self, arm: ArmId, verdict: Verdict, width: int) -> Text:
        style = STYLE[verdict.status]
        facts = [outcome_of(verdict), latency_of(verdict), culprits_of(verdict)]
        if verdict.status is not Status.PASS:
            facts.insert(0, words(verdict.status))
        said = ", ".join(dict.fromkeys(f for f in facts if f))
        mark = f"{self._pen.mark(verdict.status)} "
        return self._line(mark, style, arm, self._pen.text(said), style, width)

    def _line(self, mark: str, mark_style: str, arm: ArmId, said: str, style: str, width: int) -> Text:
        """Return one line of exactly one row: the name in its column, what is said behind it."""
        column = max(8, min(self._longest_name, int((width - len(mark)) * _NAME_SHARE)))
        name = self._pen.fit(Text(arm_name(arm, self._pen)), column)
        name.pad_right(max(0, column - name.cell_len) + 1)
        return self._pen.fit(Text.assemble((mark, mark_style), name, (said, style)), width)


def _counts(look: _Look) -> Text:
    parts = [f"{look.done}/{look.total} arms done", f"{len(look.running)} running"]
    line = Text(", ".join(parts))
    for result in Result:
        if look.results[result]:
            line.append(", ")
            line.append(f"{look.results[result]} {words(result)}", style=STYLE[result])
    return line
