"""A comparison of two runs in words: sections with lines, which the terminal and Markdown both show.

Nothing here is safe to print yet: names and reasons stand in it as files and ranks gave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from chaoskit.compare.comparison import (
    ENVIRONMENT,
    PLAN,
    ArmChange,
    Comparison,
    Difference,
    Of,
    Said,
    ScenarioChange,
)
from chaoskit.compare.latencies import FEWEST, Condition, Latencies
from chaoskit.model import Result
from chaoskit.reports.wording import plural, seconds, words

ARMS_NAMED = 3
PAIRS_SHOWN = 12
"""Arms whose latencies are shown side by side though nothing can be said of them."""
_LONGEST_VALUE = 160
Standing = Literal["broke", "failing", "unclear", "kept"]


@dataclass(frozen=True, slots=True)
class Section:
    """``lines`` under ``title``; ``result`` gives the colour, None: plain."""

    title: str
    lines: tuple[str, ...]
    result: Result | None = None


def heading(which: str, side: Of) -> str:
    """Return what one side is."""
    parts = [f"{which}: {side.folder}", plural(side.scenarios, "scenario")]
    parts += [f"started {side.started}"] if side.started else []
    parts += ["interrupted: scenarios may be missing"] if side.interrupted else []
    parts += [] if side.has_record else ["without a run.json that can be read: its versions are not known"]
    return ", ".join(parts)


def unchanged(found: Comparison) -> str:
    """Return how much is the same in both."""
    results = ", ".join(f"{one.count} {words(one.result)}" for one in found.same_results)
    return f"{plural(found.same, 'scenario')} the same" + (f" ({results})" if results else "")


def standing(found: Comparison) -> Standing:
    """Return what the headline is to look like: only *kept* says that nothing is the worse."""
    if found.broke:
        return "broke"
    if found.now_failing:
        return "failing"
    return "unclear" if found.lost_sight_of or not found.held_in_a else "kept"


def conclusion(found: Comparison) -> str:
    """Return what the comparison comes to."""
    broke, unseen, failing = len(found.broke), len(found.lost_sight_of), len(found.now_failing)
    parts = []
    if broke:
        was, now = ("was", "is") if broke == 1 else ("were", "are")
        parts.append(f"{plural(broke, 'scenario')} {was} held and {now} not held now")
    elif not found.held_in_a:
        parts.append("nothing was held in A, so nothing can be lost")
    elif unseen < found.held_in_a:
        parts.append("nothing that was held is not held now")
    if unseen:
        parts.append(f"of {plural(unseen, 'scenario')} that held nobody can tell now")
    if failing:
        more = "more " if broke else ""
        now = "fails" if failing == 1 else "fail"
        parts.append(f"{plural(failing, f'{more}arm')} passed before and {now} now")
    return "; ".join(parts)


def sections(found: Comparison) -> Iterator[Section]:
    """Yield what differs, what matters most first."""
    yield from _results(found)
    yield from _arms(found)
    yield from _settings(found)
    yield from _latencies(found.latencies)


# ---------------------------------------------------------------- results


def _results(found: Comparison) -> Iterator[Section]:
    rest = [s for s in found.scenarios if not s.broke and not s.is_lost_sight_of]
    parts = (
        ("held in A, not held in B", found.broke, Result.NOT_HELD),
        ("held in A, and nobody can tell in B", found.lost_sight_of, Result.INCONCLUSIVE),
        ("held in B, and not in A", [s for s in rest if s.a and s.b is Result.HELD], Result.HELD),
        ("other results", [s for s in rest if s.a and s.b and s.b is not Result.HELD], None),
        ("only in B", [s for s in rest if s.a is None], None),
        ("only in A", [s for s in rest if s.b is None], None),
    )
    for title, changes, result in parts:
        if changes:
            yield Section(f"{title} ({len(changes)})", tuple(map(_result_line, changes)), result)


def _result_line(change: ScenarioChange) -> str:
    name = _named(change.name, change.backend)
    if change.a is None or (change.b is None and change.a is not Result.HELD):
        only = change.b or change.a
        assert only is not None
        return f"{name}: {words(only)}"
    if change.b is None:
        return f"{name}: held → not in B"
    why = change.b_reason if change.b is not Result.HELD else change.a_reason
    which = "" if change.b is not Result.HELD else "A: "
    return f"{name}: {words(change.a)} → {words(change.b)}" + (f" ({which}{_cut(why)})" if why else "")


def _named(name: str, backend: str) -> str:
    return name if backend == "gloo" else f"{name} [{backend}]"


# ---------------------------------------------------------------- arms


def _arms(found: Comparison) -> Iterator[Section]:
    for title, changes in (
        ("culprits changed", [a for a in found.arms if a.culprits_changed]),
        ("outcomes changed", [a for a in found.arms if not a.culprits_changed]),
    ):
        if changes:
            yield Section(f"{title} ({plural(len(changes), 'arm')})", tuple(map(_arm_line, changes)))


def _arm_line(change: ArmChange) -> str:
    arm = f"{_named(change.scenario, change.backend)} {change.arm}"
    return f"{arm}: {_all_said(change.a)} → {_all_said(change.b)}"


def _all_said(said: tuple[Said, ...]) -> str:
    repeated = sum(s.count for s in said) > 1
    return "; ".join((f"{s.count}× " if repeated else "") + _one_said(s) for s in said)


def _one_said(said: Said) -> str:
    outcome = words(said.outcome) if said.outcome is not None else words(said.status)
    what = words(said.kind) if said.kind is not None else ""
    who = " ".join(filter(None, (", ".join(said.culprits), what))) or "nobody named"
    return f"{words(said.status)}, {outcome}, {who}"


# ---------------------------------------------------------------- settings


def _settings(found: Comparison) -> Iterator[Section]:
    if found.differences:
        title = f"versions and settings ({len(found.differences)} differ)"
        yield Section(title, tuple(map(_difference_line, found.differences)))


def _difference_line(difference: Difference) -> str:
    name = f"variable {difference.name}" if difference.of == ENVIRONMENT else difference.name
    line = f"{name}: {_apart(difference.a, difference.b)}"
    if difference.of != PLAN or difference.everywhere:
        return line
    if difference.every and len(difference.arms) > 1:
        return f"{line} (every {difference.every} arm)"
    named = ", ".join(difference.arms[:ARMS_NAMED])
    more = len(difference.arms) - ARMS_NAMED
    rest = f" and {plural(more, 'more arm')}" if more > 0 else ""
    return f"{line} ({named}{rest})"


def _apart(a: str | None, b: str | None) -> str:
    """Return both values; of two lists of the same fields only those that differ."""
    if a is not None and b is not None and "=" in a and "=" in b:
        fields = list(zip(a.split(", "), b.split(", "), strict=False))
        names_agree = all("=" in x and x.partition("=")[0] == y.partition("=")[0] for x, y in fields)
        if names_agree and a.count(", ") == b.count(", "):
            return ", ".join(f"{x} → {y.partition('=')[2] or '–'}" for x, y in fields if x != y)
    return f"{_value(a)} → {_value(b)}"


def _value(text: str | None) -> str:
    return "–" if text is None else _cut(text) or "''"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


# ---------------------------------------------------------------- latencies


def _latencies(pairs: tuple[Latencies, ...]) -> Iterator[Section]:
    if not pairs:
        return
    apart = [p for p in pairs if p.said in ("slower", "faster")]
    alike = [p for p in pairs if p.said == "no_difference"]
    few = [p for p in pairs if p.said == "too_few"]
    others = [p for p in pairs if p.said == "not_comparable"]
    lines = [_latency_line(p) for p in sorted(apart, key=lambda p: -(p.ratio.factor if p.ratio else 0))]
    lines += _all_or_count(alike, "no difference measurable")
    lines += _all_or_count(few, f"no statement, as that takes {FEWEST} repeats on each side")
    lines += _all_or_count(others, "not comparable, as time scale, ranks, hosts or launcher differ")
    yield Section("latencies", tuple(lines))


def _all_or_count(pairs: list[Latencies], what: str) -> Iterable[str]:
    if len(pairs) > PAIRS_SHOWN:
        return [f"{plural(len(pairs), 'arm')}: {what}"]
    return [_latency_line(p) for p in pairs]


def _latency_line(pair: Latencies) -> str:
    arm = f"{_named(pair.scenario, pair.backend)} {pair.arm}"
    sides = f"{seconds(pair.a_s)} → {seconds(pair.b_s)}"
    if pair.said == "not_comparable":
        return f"{arm}: {sides}, not comparable: {_conditions(pair.conditions)}{_production_bounds(pair)}"
    if pair.ratio is None:
        fewest = min(pair.a_count, pair.b_count)
        return f"{arm}: {sides}, no statement ({plural(fewest, 'repeat')}, {FEWEST} needed on each side)"
    beside = f" (with {_conditions(pair.conditions)}{_production_bounds(pair)})" if pair.conditions else ""
    r = pair.ratio
    if pair.said == "no_difference":
        return f"{arm}: {sides}, no difference measurable [{r.low:.2g}, {r.high:.2g}]{beside}"
    if pair.said == "slower":
        return f"{arm}: {sides}, slower by {r.factor:.2g}× [{r.low:.2g}, {r.high:.2g}]{beside}"
    return f"{arm}: {sides}, faster by {1 / r.factor:.2g}× [{1 / r.high:.2g}, {1 / r.low:.2g}]{beside}"


def _conditions(conditions: tuple[Condition, ...]) -> str:
    return ", ".join(f"{c.name} {_value(c.a)} → {_value(c.b)}" for c in conditions)


def _production_bounds(pair: Latencies) -> str:
    a, b = pair.a_production_bound_s, pair.b_production_bound_s
    return "" if a is None and b is None else f"; allowed in production {seconds(a)} → {seconds(b)}"
