"""Puts the operations of a rank into lanes: what overlaps stands in different ones. Pure.

A viewer draws the events of a thread as a stack, in which two that overlap without one holding the other
cannot be drawn. So a thread with operations under way at the same time (``async_op``) has several lanes.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from chaoskit.recorded import Form, Rows

LANES_MAX = 32
"""Of one thread. What finds no lane is drawn as an instant."""
THREADS_MAX = 30
"""Threads of a script that are drawn apart; all others share one."""
NO_LANE = 255
_OPEN_SHOWN = 16
"""Operations of a rank that were not seen to end and are drawn up to its end; earlier ones are instants."""


class Lanes:
    """The lane of each operation of one rank, and when it ends there."""

    def __init__(self, rows: Rows, forms: Sequence[Form], end_s: float) -> None:
        self._rows = rows
        self._end_s = end_s
        self._thread_of_form = [min(max(form.thread, 0), THREADS_MAX) for form in forms]
        open_rows = [row for row, ended_s in enumerate(rows.ended_s) if math.isnan(ended_s)]
        self._hidden = set(open_rows[:-_OPEN_SHOWN])
        self.lane = array("B", bytes(len(rows.form)))
        self.used: dict[int, int] = {}
        """Thread → how many lanes it has."""
        self._fill()

    def _fill(self) -> None:
        free_from: dict[int, list[float]] = {}
        for row, form in enumerate(self._rows.form):
            ends = free_from.setdefault(self._thread_of_form[form], [])
            self.lane[row] = NO_LANE if row in self._hidden else self._place(row, ends)
        self.used = {thread: len(ends) for thread, ends in free_from.items()}

    def _place(self, row: int, ends: list[float]) -> int:
        entered_s, ended_s = self._rows.entered_s[row], self.ended_s(row)
        for lane, free_s in enumerate(ends):
            if free_s <= entered_s:
                ends[lane] = ended_s
                return lane
        if len(ends) == LANES_MAX:
            return NO_LANE
        ends.append(ended_s)
        return len(ends) - 1

    def thread(self, row: int) -> int:
        return self._thread_of_form[self._rows.form[row]]

    def ended_s(self, row: int) -> float:
        """Return when it ends in the trace: what never did ends with its rank."""
        ended_s, entered_s = self._rows.ended_s[row], self._rows.entered_s[row]
        return max(self._end_s if math.isnan(ended_s) else ended_s, entered_s)
