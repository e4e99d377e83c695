"""What of each operation was waiting: the time until its last member had entered. Pure.

A rank that is in an operation before another has entered it waits for that one; only from the last entry on
the operation itself can make progress. Where a member never entered, all of it is waiting. A send waits for
its recv, and the other way round; a recv from anyone waits for nobody that is known. Outside of operations a
rank works, or is stuck: that cannot be told here.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from chaoskit.recorded import Form, Recorded, Rows

_NTH_BITS = 32
_OF_TWO = ("send", "recv")


@dataclass(frozen=True, slots=True)
class Lane:
    """The operations of one process, in order of entry. All arrays have the same length as ``rows``' columns.

    ``waited_s``: when the last member entered, at most the end; ``ends_s``: of an operation that never ended,
    when its process or the arm did.
    """

    rows: Rows
    waited_s: array[float]
    ends_s: array[float]


def lanes(recorded: Recorded, ranks: Mapping[int, int], ends_s: Mapping[int, float]) -> dict[int, Lane]:
    """Return the lane of each slot. ``ranks``: the rank of each slot; ``ends_s``: when its process ended."""
    meetings = _Meetings(recorded.forms, ranks)
    keys = {slot: meetings.keys(slot, rows) for slot, rows in recorded.rows.items()}
    last: dict[int, float] = {}
    present: Counter[int] = Counter()
    for slot, rows in recorded.rows.items():
        present.update(keys[slot])
        seen = last.get
        for key, entered_s in zip(keys[slot], rows.entered_s, strict=True):
            if seen(key, -math.inf) < entered_s:
                last[key] = entered_s  # noqa: PERF403 - not of every key
    for key, count in present.items():
        if count < meetings.size(key):
            last[key] = math.inf
    return {
        slot: _lane(rows, keys[slot], last, ends_s.get(slot, math.inf))
        for slot, rows in recorded.rows.items()
    }


def _lane(rows: Rows, keys: array[int], last: Mapping[int, float], end_s: float) -> Lane:
    until = [t if t == t else max(end_s, e) for t, e in zip(rows.ended_s, rows.entered_s, strict=True)]
    ends = array("d", until)
    # Not `min`: a call for each of a million operations is a second.
    waits = array("d", [w if (w := last[k]) < t else t for k, t in zip(keys, until, strict=True)])
    return Lane(rows, waits, ends)


class _Meetings:
    """Gives every operation the number of the meeting that it belongs to: the same on all of its members."""

    def __init__(self, forms: tuple[Form, ...], ranks: Mapping[int, int]) -> None:
        self._forms = forms
        self._ranks = ranks
        self._sizes: list[int] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._of_two = [f.peer >= 0 or f.op in _OF_TWO for f in forms]
        self._of_form = [
            0 if two else self._collective(f) for f, two in zip(forms, self._of_two, strict=True)
        ]

    def keys(self, slot: int, rows: Rows) -> array[int]:
        """Return the number of the meeting of each operation of ``slot``."""
        if any(self._of_two):
            return self._keys_with_pairs(slot, rows)
        bases = [number << _NTH_BITS for number in self._of_form]
        return array("Q", [bases[form] + nth for form, nth in zip(rows.form, rows.nth, strict=True)])

    def size(self, key: int) -> int:
        """Return how many have to enter."""
        return self._sizes[key >> _NTH_BITS]

    def _keys_with_pairs(self, slot: int, rows: Rows) -> array[int]:
        """The n-th send to a rank meets that rank's n-th recv from here, whatever their own counts are."""
        keys = array("Q")
        counts: Counter[int] = Counter()
        me = self._ranks.get(slot, slot)
        for number, nth in zip(rows.form, rows.nth, strict=True):
            form = self._forms[number]
            meeting, count = self._of_form[number], nth
            if self._of_two[number]:
                meeting = self._pair(form, me)
                counts[meeting] += 1
                count = counts[meeting]
            keys.append((meeting << _NTH_BITS) + count)
        return keys

    def _collective(self, form: Form) -> int:
        # Groups without a member in common may have the same name.
        return self._number(("all", form.op, form.group, form.members), len(form.members) or len(self._ranks))

    def _pair(self, form: Form, me: int) -> int:
        if form.peer < 0:
            return self._number(("anyone", form.group, me), 1)
        sends = "send" in form.op
        source, target = (me, form.peer) if sends else (form.peer, me)
        return self._number(("pair", form.group, source, target), 2)

    def _number(self, what: tuple[object, ...], size: int) -> int:
        if what not in self._numbers:
            self._numbers[what] = len(self._sizes)
            self._sizes.append(size)
        return self._numbers[what]
