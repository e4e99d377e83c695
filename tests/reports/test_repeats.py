"""Repeats of an arm collapse into groups of equal verdicts."""

from __future__ import annotations

from collections.abc import Callable

from chaoskit.model import Outcome, Verdict
from chaoskit.reports.repeats import by_arm


def test_equal_verdicts_are_one_group_whatever_their_latency(verdict: Callable[..., Verdict]) -> None:
    (arm,) = by_arm([verdict(repeat=n, latency_s=n / 10) for n in (2, 1, 3)])
    assert (arm.arm, arm.count, arm.diverges) == ("hardened", 3, False)
    assert arm.groups[0].latencies_s == (0.1, 0.2, 0.3)


def test_a_divergence_is_a_group_of_its_own_the_most_frequent_first(verdict: Callable[..., Verdict]) -> None:
    odd = verdict(repeat=1, outcome=Outcome.HUNG, latency_s=None)
    (arm,) = by_arm([odd, verdict(repeat=2), verdict(repeat=3)])
    assert arm.diverges
    assert [len(g.verdicts) for g in arm.groups] == [2, 1]
    assert arm.groups[1].first is odd


def test_arms_stay_apart_in_their_order(verdict: Callable[..., Verdict]) -> None:
    arms = by_arm([verdict(arm="control"), verdict(), verdict(arm="control", repeat=2)])
    assert [(a.arm, a.count) for a in arms] == [("control", 2), ("hardened", 1)]


def test_of_several_attempts_the_last_one_counts(verdict: Callable[..., Verdict]) -> None:
    first = verdict(repeat=2, attempt=1, outcome=Outcome.OVERDUE)
    (arm,) = by_arm([verdict(repeat=1), first, verdict(repeat=2, attempt=2)])
    assert (arm.count, arm.diverges, arm.superseded) == (2, False, (first,))
