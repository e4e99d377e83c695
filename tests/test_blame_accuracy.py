"""The pure parts of benchmarks/blame_accuracy.py: drawing, what is right, torchrun's rule, counting."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaoskit.model import Blame, Culprit, Kind, Operation, Phase, Trigger

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MODULES = ("_blame_cases", "_blame_programs", "_blame_table", "_blame_torchrun", "_blame_truth")
RING = ("all_reduce", "broadcast", "barrier")


class Parts:
    """The benchmark's modules, which are scripts beside it and no package."""

    cases: Any
    programs: Any
    table: Any
    torchrun: Any
    truth: Any


@pytest.fixture(scope="module")
def parts() -> Iterator[Parts]:
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        found = Parts()
        for name in MODULES:
            setattr(found, name.removeprefix("_blame_"), __import__(name))
        yield found
    for name in set(sys.modules) - before:
        if name.startswith("_blame_"):
            del sys.modules[name]


def ring(parts: Parts, ranks: int = 4, steps: int = 4, marks: tuple[int, ...] = (1, 2, 3)) -> Any:
    """A program whose ranks all do ``RING`` in each step, each operation on a line of its own."""
    ops = tuple(
        parts.programs.Op(op, "default", step, step, f"t.py:{10 + i}", marks[i], "8", tuple(range(ranks)))
        for step in range(1, steps + 1)
        for i, op in enumerate(RING)
    )
    return parts.programs.Program("all-reduce-loop", ranks, (ops,) * ranks)


def case(parts: Parts, kind: str, fault: str, program: Any, when: Trigger, **settings: object) -> Any:
    op = next((o for o in program.ops[1] if (o.op, o.group, o.nth) == (when.op, when.group, when.nth)), None)
    return parts.cases.Case(
        0, kind, program.workload, program.ranks, 1, fault, tuple(settings.items()), when, "timeouts", op
    )


def at(*places: tuple[str, int]) -> frozenset[Operation]:
    return frozenset(Operation(op, "default", nth) for op, nth in places)


def test_a_case_depends_on_the_seed_and_its_number_alone(parts: Parts) -> None:
    programs = {
        (w, n): ring(parts, n, steps=9) for w in parts.programs.WORKLOADS for n in parts.programs.worlds(w)
    }
    drawn = [parts.cases.draw(7, n, programs) for n in range(15)]  # end-of-data needs uneven-data's own
    assert drawn == [parts.cases.draw(7, n, programs) for n in range(15)]
    assert drawn != [parts.cases.draw(8, n, programs) for n in range(15)]
    assert [c.kind for c in drawn] == list(parts.cases.KINDS[:15])


@pytest.mark.parametrize(
    ("phase", "missed", "line"),
    [
        (Phase.BEFORE, ("broadcast", 2), "t.py:11"),
        (Phase.DURING, ("broadcast", 2), "t.py:11"),
        (Phase.AFTER, ("barrier", 2), "t.py:11"),
    ],
)
def test_a_rank_that_raises_parts_at_the_first_operation_that_it_does_not_finish(
    parts: Parts, phase: Phase, missed: tuple[str, int], line: str
) -> None:
    program = ring(parts)
    when = Trigger("collective", "broadcast", 2, phase=phase)
    truth = parts.truth.of(case(parts, "raise", "raise", program, when, error="ValueError: x"), program)
    assert (truth.kinds, truth.at, truth.lines) == ({Kind.EXCEPTION}, at(missed), {line})


def test_the_line_of_a_silent_death_between_two_operations_is_not_counted(parts: Parts) -> None:
    program = ring(parts)
    lines = [
        parts.truth.of(
            case(parts, "kill", "kill", program, Trigger("collective", "broadcast", 2, phase=phase)), program
        ).lines
        for phase in (Phase.BEFORE, Phase.DURING, Phase.AFTER)
    ]
    assert lines == [None, {"t.py:11"}, None]


@pytest.mark.parametrize(
    ("fault", "places", "lines"),
    [
        ("skip", [("broadcast", 2), ("barrier", 2)], {"t.py:11"}),
        ("extra", [("broadcast", 2), ("broadcast", 3), ("barrier", 2)], {"t.py:11"}),
        ("swap", [("broadcast", 2), ("barrier", 2)], {"t.py:11", "t.py:12"}),
    ],
)
def test_a_rank_that_goes_another_way_parts_where_it_shows(
    parts: Parts, fault: str, places: list[tuple[str, int]], lines: set[str]
) -> None:
    program = ring(parts)
    truth = parts.truth.of(case(parts, fault, fault, program, Trigger("collective", "broadcast", 2)), program)
    assert (truth.kinds, truth.at, truth.lines) == ({Kind.OTHER_COLLECTIVE}, at(*places), lines)
    assert not truth.undecidable


def test_where_all_looks_alike_the_others_wait_in_one_more_than_the_rank_ever_enters(parts: Parts) -> None:
    program = ring(parts, marks=(5, 5, 5))
    truth = parts.truth.of(case(parts, "skip", "skip", program, Trigger("collective", "barrier", 3)), program)
    assert truth.kinds == {Kind.OTHER_COLLECTIVE, Kind.NEVER_ENTERED}
    assert at(("barrier", 3), ("barrier", 4)) <= truth.at
    assert at(("broadcast", 3)).isdisjoint(truth.at)


def test_two_ranks_that_part_are_undecidable(parts: Parts) -> None:
    program = ring(parts, ranks=2)
    truth = parts.truth.of(case(parts, "skip", "skip", program, Trigger("collective", "barrier", 3)), program)
    assert truth.undecidable


# ---------------------------------------------------------------- torchrun's rule


def end(parts: Parts, rank: int, code: int, ended_s: float | None, raised_s: float | None = None) -> Any:
    return parts.torchrun.Exit(rank, code, ended_s, raised_s)


def test_torchrun_names_the_lowest_of_those_that_had_failed_when_it_looked(parts: Parts) -> None:
    ends = [end(parts, 0, 1, 9.18), end(parts, 1, 1, 9.19), end(parts, 2, 1, 9.25), end(parts, 3, -9, 9.12)]
    assert parts.torchrun.named(ends, 5.0, record=False) == 0
    late = [end(parts, 0, 1, 9.25), end(parts, 3, -9, 9.12)]
    assert parts.torchrun.named(late, 5.0, record=False) == 3


def test_torchrun_with_record_names_a_victim_whose_error_came_in_an_earlier_second(parts: Parts) -> None:
    ends = [end(parts, 1, -9, 9.96), end(parts, 2, 1, 10.01, raised_s=9.98)]
    assert parts.torchrun.named(ends, 5.05, record=False) == 1
    assert parts.torchrun.named(ends, 5.05, record=True) == 2


def test_torchrun_says_nothing_of_a_hang_and_of_a_rank_that_leaves_with_0(parts: Parts) -> None:
    assert parts.torchrun.named([end(parts, 0, -9, None), end(parts, 1, 0, 9.0)], 5.0, record=False) is None


def test_the_rank_that_torchrun_printed_is_found(parts: Parts) -> None:
    said = (
        "Failures:\n[0]:\n  rank      : 3 (local_rank: 3)\n"
        "Root Cause (first observed failure):\n[1]:\n  time : x\n  rank      : 2 (local_rank: 2)\n"
    )
    assert parts.torchrun.printed(said) == 2
    assert parts.torchrun.printed("nothing of the kind") is None


# ---------------------------------------------------------------- counting


def test_wilsons_interval(parts: Parts) -> None:
    low, high = parts.table.wilson(294, 300)
    assert (round(low, 4), round(high, 4)) == (0.9571, 0.9908)
    assert parts.table.wilson(0, 0) == (0.0, 1.0)


def test_what_is_said_is_counted_once(parts: Parts) -> None:
    program = ring(parts, ranks=2)
    one = case(parts, "skip", "skip", program, Trigger("collective", "barrier", 3))
    truth = parts.truth.of(one, program)
    both, it, other = ([Culprit("rank", n) for n in names] for names in ("01", "1", "0"))

    def scored(ranks: list[Culprit], ambiguous: bool = False) -> Any:
        return parts.table.Scored(one, truth, Blame(tuple(ranks), Kind.OTHER_COLLECTIVE, ambiguous=ambiguous))

    def verdict(s: Any) -> tuple[bool, bool, bool, bool]:
        return s.culprit_right, s.excused, s.wrong, s.nobody

    assert verdict(scored(it)) == (True, False, False, False)
    assert verdict(scored(both, ambiguous=True)) == (False, True, False, False)
    assert verdict(scored(both)) == (False, False, True, False)
    assert verdict(scored(other)) == (False, False, True, False)
    assert verdict(scored([])) == (False, False, False, True)
