"""What differs between two runs, A and B. Pure: from two sides to one value."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from chaoskit.compare import latencies
from chaoskit.compare.latencies import Condition, Latencies
from chaoskit.compare.side import ArmKey, Settings, Side, counting, result_of
from chaoskit.model import Kind, Outcome, Result, ScenarioResult, Status, Verdict

RECORD: Final = "record"
ENVIRONMENT: Final = "environment"
PLAN: Final = "plan"
NOT_COMPARABLE: Final = ("time scale", "ranks", "hosts", "launcher")
"""Settings of an arm of which its latency depends by itself: with others it says nothing of the fault."""
TOLD_BESIDE: Final = ("profile",)
"""Settings that are often what is compared: a latency may be compared, and they are told with it."""


@dataclass(frozen=True, slots=True)
class Of:
    """The run that one side is."""

    folder: str
    started: str
    scenarios: int
    interrupted: bool
    has_record: bool


@dataclass(frozen=True, slots=True)
class Count:
    """How many scenarios have a result, the same in both runs."""

    result: Result
    count: int


@dataclass(frozen=True, slots=True)
class ScenarioChange:
    """A scenario whose result is another one; None: it is not in that run."""

    name: str
    backend: str
    a: Result | None
    b: Result | None
    a_reason: str = ""
    b_reason: str = ""

    @property
    def broke(self) -> bool:
        """It was held, and is not."""
        return self.a is Result.HELD and self.b is Result.NOT_HELD

    @property
    def is_lost_sight_of(self) -> bool:
        """It was held, and nobody can tell any more."""
        return self.a is Result.HELD and self.b in (Result.INCONCLUSIVE, Result.SKIPPED, None)


@dataclass(frozen=True, slots=True)
class Said:
    """What verdicts of one arm say alike, and how many of them do."""

    status: Status
    outcome: Outcome | None
    kind: Kind | None
    culprits: tuple[str, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class ArmChange:
    """An arm of both runs with another outcome, or another culprit."""

    scenario: str
    backend: str
    arm: str
    a: tuple[Said, ...]
    b: tuple[Said, ...]
    culprits_changed: bool

    @property
    def now_fails(self) -> bool:
        """It passed each time, and now fails at least once."""
        return {s.status for s in self.a} == {Status.PASS} and any(s.status is Status.FAIL for s in self.b)


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting with another value. None: not set, or not there.

    ``of`` is where it stands: the record of the run, its environment, or the plans of ``arms``.
    ``everywhere``: of all arms that both runs have; ``every``: of all of this name.
    """

    of: str
    name: str
    a: str | None
    b: str | None
    arms: tuple[str, ...] = ()
    everywhere: bool = False
    every: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that differs, and how much does not."""

    a: Of
    b: Of
    same: int
    same_results: tuple[Count, ...]
    scenarios: tuple[ScenarioChange, ...]
    arms: tuple[ArmChange, ...]
    differences: tuple[Difference, ...]
    latencies: tuple[Latencies, ...]
    held_in_a: int = 0
    """Of how many scenarios a comparison can say that they are held no more."""

    @property
    def broke(self) -> tuple[ScenarioChange, ...]:
        """What was held and is not held now: the one thing that fails a comparison."""
        return tuple(s for s in self.scenarios if s.broke)

    @property
    def lost_sight_of(self) -> tuple[ScenarioChange, ...]:
        """What was held and of which nobody can tell now."""
        return tuple(s for s in self.scenarios if s.is_lost_sight_of)

    @property
    def now_failing(self) -> tuple[ArmChange, ...]:
        """Arms that passed and fail now, though their scenario is none of those that broke."""
        told = {(s.name, s.backend) for s in self.broke}
        return tuple(arm for arm in self.arms if arm.now_fails and (arm.scenario, arm.backend) not in told)


def compare(a: Side, b: Side) -> Comparison:
    """Return what differs between ``a`` and ``b``, in the order of A, then of B."""
    in_a, in_b = _by_key(a), _by_key(b)
    both = [(in_a[key], in_b[key]) for key in in_a if key in in_b]
    changes = [_change(in_a.get(key), in_b.get(key)) for key in {**in_a, **in_b}]
    changed = tuple(change for change in changes if change.a is not change.b)
    arms = tuple(arm for pair in both for arm in _arms(*pair))
    moved = {(s.name, s.backend) for s in changed} | {(arm.scenario, arm.backend) for arm in arms}
    same = [result_of(one) for one, _ in both if (one.name, one.backend) not in moved]
    return Comparison(
        a=_of(a),
        b=_of(b),
        same=len(same),
        same_results=tuple(Count(r, n) for r in Result if (n := same.count(r))),
        scenarios=changed,
        arms=arms,
        differences=(*_of_runs(a, b), *_of_plans(a, b)),
        latencies=latencies.told([p for pair in both for p in _latencies(*pair, (a.settings, b.settings))]),
        held_in_a=sum(result_of(s) is Result.HELD for s in a.scenarios),
    )


def _of(side: Side) -> Of:
    return Of(side.folder, side.started, len(side.scenarios), side.interrupted, side.has_record)


def _by_key(side: Side) -> dict[tuple[str, str], ScenarioResult]:
    return {(s.name, s.backend): s for s in side.scenarios}


def _change(a: ScenarioResult | None, b: ScenarioResult | None) -> ScenarioChange:
    named = a or b
    assert named is not None
    return ScenarioChange(
        named.name,
        named.backend,
        result_of(a) if a is not None else None,
        result_of(b) if b is not None else None,
        _reason(a),
        _reason(b),
    )


def _reason(scenario: ScenarioResult | None) -> str:
    if scenario is None:
        return ""
    return scenario.reason or next((v.reason for v in reversed(scenario.verdicts) if v.reason), "")


# ---------------------------------------------------------------- arms


def _arms(a: ScenarioResult, b: ScenarioResult) -> Iterator[ArmChange]:
    of_a, of_b = counting(a.verdicts), counting(b.verdicts)
    for arm in of_a:
        if arm not in of_b:
            continue
        said_a, said_b = _said(of_a[arm]), _said(of_b[arm])
        if _kinds(said_a) == _kinds(said_b):
            continue
        culprits = {s.culprits for s in said_a} != {s.culprits for s in said_b}
        yield ArmChange(a.name, a.backend, arm, said_a, said_b, culprits)


def _said(verdicts: tuple[Verdict, ...]) -> tuple[Said, ...]:
    """What the verdicts say, the most frequent first."""
    counts = Counter(Said(v.status, v.outcome, v.kind, tuple(sorted(map(str, v.culprits)))) for v in verdicts)
    return tuple(Said(s.status, s.outcome, s.kind, s.culprits, n) for s, n in counts.most_common())


def _kinds(said: tuple[Said, ...]) -> set[tuple[object, ...]]:
    return {(s.status, s.outcome, s.kind, s.culprits) for s in said}


def _latencies(
    a: ScenarioResult,
    b: ScenarioResult,
    settings: tuple[Mapping[ArmKey, Settings], Mapping[ArmKey, Settings]],
) -> Iterator[Latencies]:
    of_a, of_b = counting(a.verdicts), counting(b.verdicts)
    for arm in of_a:
        of_arm_a, of_arm_b = _known(of_a[arm]), _known(of_b.get(arm, ()))
        if not of_arm_a or not of_arm_b:
            continue
        key = (a.name, a.backend, arm)
        conditions = _conditions(*(side.get(key, ()) for side in settings))
        apart = any(c.name in NOT_COMPARABLE for c in conditions)
        yield Latencies(
            *key, statistics.median(of_arm_a), statistics.median(of_arm_b), len(of_arm_a), len(of_arm_b),
            None if apart else latencies.ratio(of_arm_a, of_arm_b),
            "not_comparable" if apart else "too_few",
            conditions,
            _production_bound_s(of_a[arm]), _production_bound_s(of_b[arm]),
        )  # fmt: skip


def _conditions(a: Settings, b: Settings) -> tuple[Condition, ...]:
    """Return what an arm was run under and differs; nothing where the plan of either is not known."""
    if not a or not b:
        return ()
    named = (*NOT_COMPARABLE, *TOLD_BESIDE)
    return tuple(
        sorted((Condition(*c) for c in _apart(a, b) if c[0] in named), key=lambda c: named.index(c.name))
    )


def _production_bound_s(verdicts: tuple[Verdict, ...]) -> float | None:
    return next((v.production_bound_s for v in verdicts if v.production_bound_s is not None), None)


def _known(verdicts: tuple[Verdict, ...]) -> list[float]:
    counts = (v for v in verdicts if v.outcome is not None and v.outcome is not Outcome.NOT_INJECTED)
    return [v.latency_s for v in counts if v.latency_s is not None and v.latency_s >= 0]


# ---------------------------------------------------------------- settings


def _of_runs(a: Side, b: Side) -> Iterator[Difference]:
    if a.has_record and b.has_record:
        yield from (Difference(RECORD, *found) for found in _apart(a.record, b.record))
        yield from (Difference(ENVIRONMENT, *found) for found in _apart(a.environment, b.environment))


def _of_plans(a: Side, b: Side) -> Iterator[Difference]:
    """One difference for all arms that have it in common."""
    both = [key for key in a.settings if key in b.settings]
    arms: dict[tuple[str, str | None, str | None], list[ArmKey]] = {}
    for key in both:
        for found in _apart(a.settings[key], b.settings[key]):
            arms.setdefault(found, []).append(key)
    for (name, one, other), keys in arms.items():
        called = {arm for _, _, arm in keys}
        every = called.pop() if len(called) == 1 and len(keys) == _count(both, keys[0][2]) else ""
        yield Difference(PLAN, name, one, other, tuple(map(arm_name, keys)), len(keys) == len(both), every)


def _count(keys: list[ArmKey], arm: str) -> int:
    return sum(key[2] == arm for key in keys)


def arm_name(key: ArmKey) -> str:
    """Return how an arm is called in words."""
    scenario, backend, arm = key
    return f"{scenario} {arm}" if backend == "gloo" else f"{scenario} [{backend}] {arm}"


def _apart(a: Settings, b: Settings) -> Iterator[tuple[str, str | None, str | None]]:
    of_a, of_b = dict(a), dict(b)
    for name in {**of_a, **of_b}:
        one, other = of_a.get(name), of_b.get(name)
        if one != other:
            yield name, one, other
