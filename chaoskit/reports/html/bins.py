"""Operations summed up over equal spans of time, for what is too dense to be drawn one by one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaoskit.reports.html.lanes import Lane
from chaoskit.reports.html.packing import Cell, share


def cells_of(lane: Lane, ops: Sequence[int], begin_s: float, end_s: float, count: int) -> Iterator[Cell]:
    """Yield ``count`` cells of equal length: shares of waiting and of operations, the operation that took
    most of it, and how many were entered. ``ops``: the number of the operation of each form."""
    width_s = (end_s - begin_s) / count
    sums = _Sums(count, max(ops, default=0) + 1)
    sums.add_all(lane, ops, begin_s, width_s)
    by_op = zip(*sums.by_op, strict=True)
    for waiting, working, entered, seconds in zip(
        sums.waiting, sums.working, sums.entered, by_op, strict=True
    ):
        busy = max(width_s, waiting + working)  # operations that overlap share what there is
        yield share(waiting, busy), share(working, busy), seconds.index(max(seconds)), entered


class _Sums:
    """Seconds in each cell."""

    def __init__(self, count: int, ops: int) -> None:
        self.count = count
        self.waiting = [0.0] * count
        self.working = [0.0] * count
        self.entered = [0] * count
        self.by_op = [[0.0] * count for _ in range(ops)]

    def add_all(self, lane: Lane, ops: Sequence[int], begin_s: float, width_s: float) -> None:
        """The inner loop of a report: nearly all operations lie in one cell, and cost no call."""
        waiting, working, entered = self.waiting, self.working, self.entered
        times = [self.by_op[op] for op in ops]
        last = self.count - 1
        rows = zip(lane.rows.entered_s, lane.waited_s, lane.ends_s, lane.rows.form, strict=True)
        for start, waited, end, form in rows:
            n = int((start - begin_s) / width_s)
            if not 0 <= n <= last:
                n = 0 if n < 0 else last
            entered[n] += 1
            if end < begin_s + (n + 1) * width_s:
                waiting[n] += waited - start
                working[n] += end - waited
                times[form][n] += end - start
            else:
                self._spread(n, (start - begin_s) / width_s, (waited - begin_s) / width_s, waiting, width_s)
                self._spread(n, (waited - begin_s) / width_s, (end - begin_s) / width_s, working, width_s)
                self._spread(n, (start - begin_s) / width_s, (end - begin_s) / width_s, times[form], width_s)

    def _spread(self, first: int, begin: float, end: float, into: list[float], width_s: float) -> None:
        """Add a span, given in cells, to every cell that it lies in."""
        for n in range(max(first, int(max(begin, 0.0))), min(self.count, int(min(end, self.count)) + 1)):
            into[n] += max(0.0, min(end, n + 1) - max(begin, n)) * width_s
