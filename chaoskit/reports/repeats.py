"""Collapses the repeats of an arm into the groups of equal verdicts. Pure.

Equal means: the same status, outcome, kind and culprits. Latencies may differ. Of several
attempts at one repeat the last one counts; the earlier ones are kept apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaoskit.model import Verdict


@dataclass(frozen=True, slots=True)
class Same:
    """Verdicts of one arm that say the same."""

    verdicts: tuple[Verdict, ...]

    @property
    def first(self) -> Verdict:
        return self.verdicts[0]

    @property
    def latencies_s(self) -> tuple[float, ...]:
        """The latencies that are known, ascending."""
        return tuple(sorted(v.latency_s for v in self.verdicts if v.latency_s is not None))


@dataclass(frozen=True, slots=True)
class ArmRepeats:
    """All repeats of one arm, the most frequent verdict first."""

    arm: str
    groups: tuple[Same, ...]
    superseded: tuple[Verdict, ...] = ()  # attempts that were followed by another

    @property
    def count(self) -> int:
        return sum(len(g.verdicts) for g in self.groups)

    @property
    def diverges(self) -> bool:
        return len(self.groups) > 1


def by_arm(verdicts: Sequence[Verdict]) -> tuple[ArmRepeats, ...]:
    """Return the arms in the order in which they first appear."""
    last = {(v.arm, v.repeat): v for v in sorted(verdicts, key=lambda v: v.attempt)}
    return tuple(_of_arm(arm, verdicts, last) for arm in dict.fromkeys(v.arm for v in verdicts))


def _of_arm(arm: str, verdicts: Sequence[Verdict], last: dict[tuple[str, int], Verdict]) -> ArmRepeats:
    groups: dict[object, list[Verdict]] = {}
    superseded = []
    for verdict in verdicts:
        if verdict.arm != arm:
            continue
        if verdict is not last[verdict.arm, verdict.repeat]:
            superseded.append(verdict)
            continue
        said = (verdict.status, verdict.outcome, verdict.kind, verdict.culprits)
        groups.setdefault(said, []).append(verdict)
    most_frequent_first = sorted(groups.values(), key=len, reverse=True)  # stable: then as seen
    return ArmRepeats(arm, tuple(Same(tuple(g)) for g in most_frequent_first), tuple(superseded))
