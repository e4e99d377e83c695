"""Counts what was said against what is right, and prints the table. Pure but for the printing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from _blame_cases import Case
from _blame_truth import Truth

from chaoskit.model import Blame, Culprit

Z_95 = 1.959964
GOAL = 0.98


@dataclass(frozen=True, slots=True)
class Scored:
    """One case: what was said of it, and what is right. ``apart`` says why it does not count, or is empty.

    ``torchrun`` and ``recorded`` are the rank that torchrun's summary would have named, without and with
    ``@record``.
    """

    case: Case
    truth: Truth
    blame: Blame
    apart: str = ""
    torchrun: int | None = None
    recorded: int | None = None

    @property
    def names_it(self) -> bool:
        return Culprit("rank", str(self.case.rank)) in self.blame.culprits

    @property
    def ambiguous(self) -> bool:
        """A named set that holds the culprit and says that it is one."""
        return self.blame.ambiguous and self.names_it

    @property
    def excused(self) -> bool:
        """Ambiguous where no evidence could tell."""
        return self.ambiguous and self.truth.undecidable

    @property
    def culprit_right(self) -> bool:
        return self.names_it and len(self.blame.culprits) == 1 and not self.blame.ambiguous

    @property
    def nobody(self) -> bool:
        return not self.blame.culprits

    @property
    def wrong(self) -> bool:
        return not (self.culprit_right or self.ambiguous or self.nobody)

    @property
    def kind_right(self) -> bool:
        return self.names_it and not self.wrong and self.blame.kind in self.truth.kinds

    @property
    def at_right(self) -> bool:
        return self.names_it and not self.wrong and self.blame.at in (self.truth.at or ())

    @property
    def line_right(self) -> bool:
        return self.names_it and not self.wrong and self.blame.where in (self.truth.lines or ())

    @property
    def flawed(self) -> bool:
        """Something of it is not right."""
        return not (
            (self.culprit_right or self.excused)
            and self.kind_right
            and (self.truth.at is None or self.at_right)
            and (self.truth.lines is None or self.line_right)
        )


def wilson(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson's score interval)."""
    if not count:
        return 0.0, 1.0
    share, z2 = right / count, Z_95 * Z_95
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z_95 / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return max(0.0, middle - half), min(1.0, middle + half)


_COLUMNS = (
    "runs", "culprit", "kind", "collective", "line", "ambig.", "wrong", "nobody", "torchrun", "+@record",
)  # fmt: skip


def table(scored: Sequence[Scored]) -> list[str]:
    """Return the lines of the table: a row for each kind of case, and all of them."""
    counted = [s for s in scored if not s.apart]
    kinds = list(dict.fromkeys(s.case.kind for s in sorted(counted, key=lambda s: s.case.number)))
    rows = [(kind, [s for s in counted if s.case.kind == kind]) for kind in kinds]
    lines = [f"  {'fault':<12}" + "".join(f"{name:>11}" for name in _COLUMNS)]
    for name, chosen in [*rows, ("all", counted)]:
        lines.append(f"  {name:<12}" + "".join(f"{cell:>11}" for cell in _cells(chosen)))
    return lines


def _cells(chosen: Sequence[Scored]) -> Iterable[str]:
    yield str(len(chosen))
    yield str(_count(chosen, lambda s: s.culprit_right))
    yield str(_count(chosen, lambda s: s.kind_right))
    placed = [s for s in chosen if s.truth.at is not None]
    yield f"{_count(placed, lambda s: s.at_right)}/{len(placed)}"
    lined = [s for s in chosen if s.truth.lines is not None]
    yield f"{_count(lined, lambda s: s.line_right)}/{len(lined)}"
    yield str(_count(chosen, lambda s: s.ambiguous))
    yield str(_count(chosen, lambda s: s.wrong))
    yield str(_count(chosen, lambda s: s.nobody))
    yield str(_count(chosen, lambda s: s.torchrun == s.case.rank))
    yield str(_count(chosen, lambda s: s.recorded == s.case.rank))


def summary(scored: Sequence[Scored]) -> list[str]:
    """Return the shares with their intervals, and whether the goal is met."""
    counted = [s for s in scored if not s.apart]
    decidable = [s for s in counted if not s.excused]
    placed = [s for s in counted if s.truth.at is not None]
    lined = [s for s in counted if s.truth.lines is not None]
    both = _count(decidable, lambda s: s.culprit_right and s.kind_right)
    met = bool(decidable) and both >= GOAL * len(decidable)
    cautious = _count(decidable, lambda s: s.ambiguous)
    silent = _count(counted, lambda s: s.torchrun is None)
    return [
        _share("right culprit", _count(decidable, lambda s: s.culprit_right), len(decidable)),
        _share("right culprit and kind", both, len(decidable)),
        _share("right collective", _count(placed, lambda s: s.at_right), len(placed)),
        _share("right line", _count(lined, lambda s: s.line_right), len(lined)),
        _share(
            "torchrun names the culprit", _count(counted, lambda s: s.torchrun == s.case.rank), len(counted)
        ),
        _share(
            "torchrun with @record names it",
            _count(counted, lambda s: s.recorded == s.case.rank),
            len(counted),
        ),
        f"undecidable (two ranks part, no third), a set with the culprit named as ambiguous: "
        f"{len(counted) - len(decidable)}, not in the two first shares; ambiguous all the same: {cautious}",
        f"torchrun prints no summary at all (a hang, or exit 0 everywhere): {silent} of {len(counted)}",
        f"goal: culprit and kind right in {GOAL:.0%} or more: {'met' if met else 'NOT MET'}",
    ]


def _share(name: str, right: int, count: int) -> str:
    low, high = wilson(right, count)
    share = f"{right / count:.1%}" if count else "–"
    return f"{name:<32} {share:>6}  ({right} of {count}; 95 %: {low:.1%} to {high:.1%})"


def _count(chosen: Sequence[Scored], right: Callable[[Scored], bool]) -> int:
    return sum(map(right, chosen))


def flaw(s: Scored) -> list[str]:
    """Return what was said of a case that is not right in everything, and what is right."""
    what = (
        "WRONG RANK" if s.wrong else "NOBODY" if s.nobody
        else "AMBIGUOUS" if s.ambiguous and not s.truth.undecidable else "kind" if not s.kind_right
        else "collective" if s.truth.at is not None and not s.at_right else "line"
    )  # fmt: skip
    said = ", ".join(map(str, s.blame.culprits)) or "nobody"
    right = ", ".join(sorted(s.truth.kinds))
    lines = [
        f"case {s.case.number} [{what}]: {s.case}",
        f"  said: {said}{' (ambiguous)' if s.blame.ambiguous else ''}, {s.blame.kind}, "
        f"at {_place(s.blame.at)}, line {_short(s.blame.where)}: {s.blame.reason[:200]}",
        f"  right: rank {s.case.rank}{' (undecidable)' if s.truth.undecidable else ''}, {right}",
    ]
    if s.truth.at is not None:
        lines[-1] += f", at {' or '.join(sorted(map(_place, s.truth.at)))}"
    if s.truth.lines is not None:
        lines[-1] += f", line {' or '.join(sorted(map(_short, s.truth.lines)))}"
    return lines


def _place(at: object) -> str:
    op, group, nth = (getattr(at, name, "") for name in ("op", "group", "nth"))
    return f"{op} #{nth} of {group}" if op else "–"


def _short(line: str) -> str:
    return line.rpartition("/")[2] or "–"
