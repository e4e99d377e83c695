"""Timeouts in the wrong order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.checking.case import Case
from chaoskit.checking.family import Rule
from chaoskit.checking.finding import Finding, Level
from chaoskit.checking.periods import Limit, limits
from chaoskit.checking.periods import text as period


@dataclass(frozen=True, slots=True)
class Order(Rule):
    """What acts later must have more time than what acts before it, so that each failure ends by the guard
    that knows best. Of a stuck job: oom_exit < collective timeout (and what NCCL's watchdog adds to it) <
    progress_watchdog < step_heartbeat. Of a job that is told to end: sigterm_exit < sidecar < launcher <
    scheduler. Only what the profile, its variables or an option give is compared, never a default of a
    script."""

    name: ClassVar[str] = "order"

    def check(self, case: Case) -> Iterator[Finding]:
        for limit in limits(case):
            if limit.is_kept:
                continue
            message = (
                f"{limit.first.name} ({period(limit.first.seconds)}) {_must(limit)} be "
                f"{'at most' if limit.may_be_equal else 'less than'} "
                f"{limit.second.name} ({period(limit.second.seconds)}): {limit.why}"
            )
            line = limit.first.line or limit.second.line
            yield Finding(limit.level, _subject(limit), message, limit.hint or _hint(limit), line)


def _must(limit: Limit) -> str:
    return "must" if limit.level is Level.ERROR else "should"


def _hint(limit: Limit) -> str:
    """Which of both can be changed is the user's to know; what would be right is said of each, by the name
    under which the cluster knows it."""
    least, most = ("at least", "at most") if limit.may_be_equal else ("more than", "less than")
    sides = (
        (limit.second.to_turn, least, limit.first.seconds),
        (limit.first.to_turn, most, limit.second.seconds),
    )
    return "give " + ", or ".join(f"{knob} {word} {period(s)}" for knob, word, s in sides if knob)


def _subject(limit: Limit) -> str:
    """The guard or variable that is meant: the first of both that stands in the file."""
    return limit.first.name if limit.first.line or not limit.second.line else limit.second.name
