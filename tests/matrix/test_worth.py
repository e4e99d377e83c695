"""Which sets are tried, what a part is worth. What is reckoned only says what to run next."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from chaoskit.matrix.values import NONE, PROFILE, Cell, Column, Mark, Row, Tried
from chaoskit.matrix.worth import guess, telling, worth

MakeRow = Callable[..., Row]
PARTS = ("timeouts", "fail_fast", "group_kill")
HELD, NOT_HELD = Mark.HELD, Mark.NOT_HELD


def test_the_smallest_set_takes_one_holder_of_each_row(row: MakeRow) -> None:
    rows = [
        row("a", {"timeouts": HELD, "fail_fast": HELD}),
        row("b", {"fail_fast": HELD, "group_kill": HELD}),
    ]
    found = guess(PARTS, rows, [])
    assert found is not None and found.parts == ("fail_fast",) and found.others == 0


def test_where_nothing_holds_alone_what_the_profile_needs_goes_together(row: MakeRow) -> None:
    rows = [row("a", without={"timeouts": NOT_HELD, "group_kill": NOT_HELD})]
    found = guess(PARTS, rows, [])
    assert found is not None and found.parts == ("timeouts", "group_kill")


def test_a_set_that_was_run_and_does_not_hold_is_mended(row: MakeRow) -> None:
    """Alone it holds, in company it does not: guards interact."""
    rows = [row("a", {"timeouts": HELD}), row("b", {"fail_fast": HELD})]
    first = guess(PARTS, rows, [])
    assert first is not None and first.parts == ("timeouts", "fail_fast")
    second = guess(PARTS, rows, [Tried(first.parts, broken=("a",), scenarios=2)])
    assert second is not None and second.parts == PARTS
    assert guess(PARTS, rows, [Tried(first.parts, ("a",)), Tried(second.parts, ("b",))]) is None


def test_a_part_that_alarms_at_a_healthy_twin_is_not_in_the_set(row: MakeRow) -> None:
    rows = [
        row("a", {"timeouts": HELD, "group_kill": HELD}),
        row("twin", {"timeouts": Mark.FALSE_ALARM}, healthy=True),
    ]
    found = guess(PARTS, rows, [])
    assert found is not None and found.parts == ("group_kill",)


def test_where_nothing_needs_holding_there_is_no_set(row: MakeRow) -> None:
    assert guess(PARTS, [row("a", base=Mark.NOT_NEEDED, profile=Mark.NOT_NEEDED)], []) is None
    assert guess(PARTS, [row("twin", healthy=True)], []) is None


def test_what_a_part_is_worth(row: MakeRow) -> None:
    rows = [
        row("a", {"timeouts": HELD}),
        row("b", without={"timeouts": NOT_HELD}),
        row("c", without={"timeouts": HELD}, profile=NOT_HELD),
        row("twin", {"timeouts": Mark.FALSE_ALARM}, healthy=True),
    ]
    found = worth("timeouts", rows)
    assert (found.alone, found.needed, found.hinders, found.alarms) == (("a",), ("b",), ("c",), ("twin",))
    assert found.matters is True
    sure = [row("a", {"timeouts": HELD}, {"timeouts": NOT_HELD})]
    assert worth("fail_fast", sure).matters is False


def test_parts_that_replace_each_other_are_never_said_not_to_matter(row: MakeRow) -> None:
    """Nothing holds it alone, and of two parts the profile does without either: which, is not known."""
    rows = [row("a", without={"group_kill": NOT_HELD})]
    for part in ("timeouts", "fail_fast"):
        found = worth(part, rows)
        assert found.matters is None and found.replaceable and found.together == ("a",)
    assert not worth("group_kill", rows).replaceable


def test_a_member_of_a_set_that_holds_something_is_never_said_not_to_matter(row: MakeRow) -> None:
    rows = [row("a", {"group_kill": HELD}, {"group_kill": NOT_HELD}), row("b")]
    tried = [Tried(("timeouts", "group_kill"), broken=("b",), scenarios=2)]
    found = worth("timeouts", rows[:1], tried)
    assert found.matters is True and found.replaceable
    assert worth("timeouts", rows[:1], [Tried(("timeouts",), broken=("a",), scenarios=1)]).matters is False


def test_what_the_needed_parts_hold_by_themselves_needs_no_other(row: MakeRow) -> None:
    rows = [row("a", without={"timeouts": NOT_HELD, "group_kill": NOT_HELD})]
    assert worth("fail_fast", rows).matters is None
    assert worth("fail_fast", rows, [Tried(("timeouts", "group_kill"), scenarios=1)]).matters is False


def test_one_holder_alone_that_the_profile_does_without_has_a_substitute_somewhere(row: MakeRow) -> None:
    assert worth("fail_fast", [row("a", {"timeouts": HELD})]).matters is None
    assert worth("fail_fast", [row("a", {"timeouts": HELD, "group_kill": HELD})]).matters is False


def test_a_part_with_an_unclear_cell_is_never_said_not_to_matter(row: MakeRow) -> None:
    for mark in (Mark.UNSTEADY, Mark.INCONCLUSIVE, Mark.NOT_RUN):
        assert worth("timeouts", [row("a", {"timeouts": mark})]).matters is None
        assert worth("timeouts", [row("a", without={"timeouts": mark})]).matters is None


def test_a_part_without_effect_anywhere_is_said_so_and_nothing_else(row: MakeRow) -> None:
    idle = {"timeouts": Mark.NOT_APPLICABLE}
    found = worth("timeouts", [row("a", idle, idle)])
    assert found.not_applicable and found.matters is None


def test_where_nothing_bites_nothing_is_known_of_a_part(row: MakeRow) -> None:
    skipped = dict.fromkeys(PARTS, Mark.SKIPPED)
    rows = [row("a", skipped, skipped, base=Mark.SKIPPED, profile=Mark.SKIPPED), row("twin", healthy=True)]
    for some in (rows, rows[:1], []):
        found = worth("timeouts", some)
        assert found.matters is None and not found.not_applicable


def test_a_row_in_which_nothing_can_be_earned_says_nothing_of_a_part(row: MakeRow) -> None:
    clear = row("a", {"group_kill": HELD}, {"group_kill": NOT_HELD})
    found = worth("timeouts", [clear, row("b", {"timeouts": Mark.NOT_RUN}, base=Mark.UNSTEADY)])
    assert found.matters is False


def test_what_tells_that_a_part_is_needed_is_held_by_nothing_else_of_the_set(row: MakeRow) -> None:
    rows = [
        row("both", {"timeouts": HELD, "group_kill": HELD}),
        row("one", {"timeouts": HELD}, {"timeouts": NOT_HELD}),
    ]
    assert list(telling("timeouts", ("timeouts", "group_kill"), rows, 2)) == ["one"]


_three = st.lists(st.sampled_from([HELD, NOT_HELD, Mark.UNSTEADY]), min_size=3, max_size=3)


@given(st.lists(st.tuples(_three, _three), min_size=1, max_size=5))
def test_no_smaller_set_is_passed_over(marks: list[tuple[list[Mark], list[Mark]]]) -> None:
    """Against all subsets, where every row has a part that holds it alone."""
    rows = [_row(str(n), alone, without) for n, (alone, without) in enumerate(marks) if HELD in alone]
    found = guess(PARTS, rows, [])
    sizes = [
        size
        for size in range(1, 4)
        for chosen in itertools.combinations(PARTS, size)
        if all(any(r.mark(Column("alone", p)) is HELD for p in chosen) for r in rows)
    ]
    assert (len(found.parts) if found else None) == (min(sizes) if rows else None)


def _row(name: str, alone: list[Mark], without: list[Mark]) -> Row:
    cells = [Cell(NONE, Mark.BITES), Cell(PROFILE, HELD)]
    cells += [Cell(Column("alone", p), m) for p, m in zip(PARTS, alone, strict=True)]
    cells += [Cell(Column("without", p), m) for p, m in zip(PARTS, without, strict=True)]
    return Row(name, "process", "", False, "gloo", "mine", tuple(cells))
