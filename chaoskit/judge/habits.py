"""What a rank does again and again, and where it did something else for once.

A training loop enters the same operations in each round. Where ranks wait for each other in a circle, and no
majority tells who is right, the one that departed from its own rounds is likely to have parted from the
others. No more than that: a program may leave its loop. So what several ranks did alike is no departure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaoskit.history import Entered
from chaoskit.judge.job import Job, RankView

PERIOD_MAX = 64
"""Longer rounds are not looked for."""
KEPT_MAX = 600
"""Of so many newest operations of a rank."""
SEEN_MIN = 4
"""So many operations in a row have to have been as in the round before."""

How = Literal["skipped", "swapped", "extra", "other_group", "other"]
Face = tuple[str, str, int]
"""Operation, group and peer: what makes two entries of one rank the same step of its round."""


@dataclass(frozen=True, slots=True)
class Departure:
    """``entered`` stands where the rounds before had ``usual``."""

    view: RankView
    how: How
    entered: Entered
    usual: Entered  # of the round before
    nth: int  # the number that the usual operation would have had


def face(event: Entered) -> Face:
    """Return what makes an operation a step of a round."""
    return event.op, event.group, event.peer


def own(job: Job, views: Sequence[RankView]) -> list[Departure]:
    """Return the newest departure of each of ``views`` that has one which no other rank made likewise."""
    everyone = {v.slot: departures(v) for v in job.ranks}
    found = []
    for view in views:
        elsewhere = {_key(d) for slot, made in everyone.items() if slot != view.slot for d in made}
        mine = [d for d in everyone[view.slot] if _key(d) not in elsewhere]
        if mine:
            found.append(mine[-1])
    return found


def _key(departure: Departure) -> tuple[object, ...]:
    return departure.how, departure.entered.op, departure.usual.op, departure.entered.step


def departures(view: RankView) -> list[Departure]:
    """Return where this rank departed from rounds of which it had made two at least, in order."""
    ops = [e for e in view.unbroken if e.op != "init" and e.t_s >= view.whole_since_s][-KEPT_MAX:]
    faces = [face(e) for e in ops]
    runs = _Runs()
    found = []
    for at in range(len(faces)):
        period = runs.period
        if period and faces[at] != faces[at - period] and ops[at].seq == ops[at - 1].seq + 1:
            found.append(_departure(view, ops, at, period))
        runs.add(faces, at)
    return found


def following(events: Sequence[Entered], at: int) -> Entered | None:
    """Return what followed ``events[at]`` in the round before, if these are rounds."""
    faces = [face(e) for e in events[: at + 1]]
    runs = _Runs()
    for index in range(max(0, len(faces) - KEPT_MAX), len(faces)):
        runs.add(faces, index)
    period = runs.period
    return events[at + 1 - period] if period else None


class _Runs:
    """For each possible length of a round: how many operations in a row were as one such round before."""

    def __init__(self) -> None:
        self._runs = [0] * (PERIOD_MAX + 1)

    def add(self, faces: Sequence[Face], at: int) -> None:
        now = faces[at]
        for period in range(1, min(at, PERIOD_MAX) + 1):
            self._runs[period] = self._runs[period] + 1 if faces[at - period] == now else 0

    @property
    def period(self) -> int:
        """The length of the rounds so far, or 0: the one that holds longest, and the shortest of such."""
        held = [(p + run, -p) for p, run in enumerate(self._runs) if p and run >= max(p, SEEN_MIN)]
        return -max(held)[1] if held else 0


def _departure(view: RankView, ops: Sequence[Entered], at: int, period: int) -> Departure:
    entered, usual = ops[at], ops[at - period]
    rest = [face(e) for e in ops[at:]]
    counted = [e.nth for e in ops[:at] if (e.op, e.group) == (usual.op, usual.group)]
    how = _how(rest, [face(e) for e in ops[at - period : at]])
    return Departure(view, how, entered, usual, counted[-1] + 1)


def _how(rest: Sequence[Face], usual: Sequence[Face]) -> How:
    """Say what happened at the start of ``rest``: what explains most of it, the simplest of equals."""
    on = [usual[i % len(usual)] for i in range(len(rest) + 2)]  # how it would have gone on
    first = rest[0]
    regrouped = first[0] == usual[0][0] and first[1] != usual[0][1]
    explained: list[tuple[int, How]] = [
        (_agreement(rest, on[1:]), "skipped"),
        (_agreement(rest, [first, *on[1:]]) if regrouped else 0, "other_group"),
        (_agreement(rest[1:], on), "extra"),
        (_agreement(rest, [on[1], on[0], *on[2:]]) if rest[1:2] == on[:1] else 0, "swapped"),
    ]
    most = max(count for count, _ in explained)
    return next(how for count, how in explained if count == most) if most else "other"


def _agreement(one: Sequence[Face], other: Sequence[Face]) -> int:
    """How many of the first of ``one`` are as in ``other``, which is longer."""
    return next((i for i, mine in enumerate(one) if mine != other[i]), len(one))
