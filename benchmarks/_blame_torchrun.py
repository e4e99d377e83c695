"""Which rank torchrun's summary would name, from the ends of the ranks as they were recorded.

The rule of torch 2.13 (``torch/distributed/elastic``: ``SubprocessContext._poll``, ``ProcessFailure``,
``ChildFailedError.get_first_failure``). The agent looks every 0.1 s. At the first look at which some rank has
ended nonzero it takes down all of those, in order of rank, then ends the others by SIGTERM and takes these
down, too. The summary names the smallest time, in whole seconds, the first of equal ones: that of the rank's
error file where there is one (``@record`` and an exception), else that of the look. Exit 0 is no failure;
while nothing has failed nothing is printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chaoskit.history import Clock, Ended, History, Raised, Started

POLL_S = 0.1
_ROOT = re.compile(r"Root Cause \(first observed failure\):.*?\brank\s*:\s*(\d+)", re.DOTALL)
_NOT_RECORDED = ("SystemExit", "KeyboardInterrupt", "GeneratorExit")
"""What ``@record`` lets pass: it writes a file for an Exception only."""


@dataclass(frozen=True, slots=True)
class Exit:
    """One rank's end. ``raised_s``: when an Exception left its main function, on the wall clock, as is
    ``ended_s``; both None where it did not."""

    rank: int
    exit_code: int
    ended_s: float | None
    raised_s: float | None


def named(exits: Sequence[Exit], started_s: float, record: bool) -> int | None:
    """Return the rank that the summary names as the root cause; None where there is no summary."""
    failed = [e.ended_s for e in exits if e.ended_s is not None and e.exit_code != 0]
    if not failed:
        return None
    polls = max(0, int((min(failed) - started_s) / POLL_S))
    poll_s = started_s + polls * POLL_S
    while poll_s < min(failed):
        poll_s += POLL_S
    seen = [e for e in exits if e.ended_s is not None and e.exit_code != 0 and e.ended_s <= poll_s]
    later = [e for e in exits if e not in seen and (e.ended_s is None or e.ended_s > poll_s)]
    failures = [(_time(e, poll_s, record), e.rank) for e in (*_ordered(seen), *_ordered(later))]
    return min(failures, key=lambda f: f[0])[1]


def _ordered(exits: Sequence[Exit]) -> list[Exit]:
    return sorted(exits, key=lambda e: e.rank)


def _time(end: Exit, poll_s: float, record: bool) -> int:
    if record and end.raised_s is not None and end.raised_s <= poll_s:
        return int(end.raised_s)
    return int(poll_s)


def exits(history: History) -> tuple[list[Exit], float]:
    """Return the ends that were the ranks' own, and when the first rank was started, on the wall clock.

    A rank that chaoskit or a guard's policy ended has none: under torchrun it would have been ended later.
    """
    add_s = next((e.wall_s - e.t_s for e in history.all(Clock)), 0.0)
    found = []
    for slot in history.slots:
        end = next((e for e in history.all(Ended) if e.slot == slot), None)
        error = next((e for e in history.all(Raised) if e.slot == slot), None)
        raised = error is not None and error.type not in _NOT_RECORDED
        own = end is not None and end.by == ""
        found.append(
            Exit(
                slot,
                end.exit_code if end is not None else 0,
                end.t_s + add_s if own and end is not None else None,
                error.t_s + add_s if raised and error is not None else None,
            )
        )
    return found, min(e.t_s for e in history.all(Started)) + add_s


def printed(said: str) -> int | None:
    """Return the rank that the real torchrun's summary names."""
    match = _ROOT.search(said)
    return int(match[1]) if match else None
