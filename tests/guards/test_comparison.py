"""Who entered what: pure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chaoskit.guards.comparison import Comparison, Entered

GROUP = ("default", (0, 1, 2))


def op(name: str, nth: int, what: str = "float32[4]") -> Entered:
    return Entered(hash((name, what)), name, nth, what, 5)


def entered(*programs: list[Entered], order: list[int] | None = None) -> Comparison:
    comparison = Comparison()
    for rank in order or range(len(programs)):
        for index, what in enumerate(programs[rank], 1):
            comparison.enter(rank, GROUP, index, what)
    return comparison


def said(comparison: Comparison) -> str:
    dispute = comparison.dispute()
    assert dispute is not None
    return comparison.describe(dispute)


def test_alike_is_agreed() -> None:
    program = [op("all_reduce", 1), op("barrier", 1)]
    comparison = entered(program, program, program)
    assert comparison.agreed(GROUP) == 2
    assert comparison.dispute() is None


def test_agreement_needs_every_member() -> None:
    comparison = entered([op("all_reduce", 1)], [op("all_reduce", 1)], [])
    assert comparison.agreed(GROUP) == 0
    assert comparison.dispute() is None


def test_the_odd_one_out_is_named() -> None:
    usual = [op("all_reduce", 12)]
    comparison = entered(usual, [op("barrier", 3)], usual)
    assert said(comparison) == "rank 1 entered barrier #3 where ranks 0, 2 entered all_reduce #12 (step 5)"


def test_the_same_call_is_told_by_shape_and_dtype() -> None:
    usual = [op("all_reduce", 8)]
    comparison = entered(usual, usual, [op("all_reduce", 8, "int32[4]")])
    assert said(comparison) == (
        "rank 2 entered all_reduce #8 with int32[4] "
        "where ranks 0, 1 entered all_reduce #8 with float32[4] (step 5)"
    )


def test_without_a_majority_it_says_so() -> None:
    comparison = Comparison()
    pair = ("default", (0, 1))
    comparison.enter(0, pair, 1, op("all_reduce", 1))
    comparison.enter(1, pair, 1, op("barrier", 1))
    assert said(comparison).endswith("without a majority either side may be the wrong one")


def test_a_difference_is_complete_when_all_members_are_heard() -> None:
    comparison = entered([op("all_reduce", 1)], [op("barrier", 1)], [])
    dispute = comparison.dispute()
    assert dispute is not None
    assert not dispute.complete
    comparison.enter(2, GROUP, 1, op("all_reduce", 1))
    dispute = comparison.dispute()
    assert dispute is not None
    assert dispute.complete


def test_who_left_early_is_named() -> None:
    usual = [op("all_reduce", 1), op("all_reduce", 2)]
    comparison = entered(usual, usual[:1], usual)
    assert comparison.dispute() is None
    comparison.leave(1, GROUP, 1)
    assert said(comparison) == "rank 1 entered nothing more where ranks 0, 2 entered all_reduce #2 (step 5)"


def test_one_too_many_is_named() -> None:
    comparison = entered([op("barrier", 1)], [op("barrier", 1), op("all_reduce", 1)], [op("barrier", 1)])
    comparison.leave(0, GROUP, 1)
    comparison.leave(2, GROUP, 1)
    assert said(comparison) == "rank 1 entered all_reduce #1 where ranks 0, 2 entered nothing more (step 5)"


def test_nobody_waits_for_a_rank_that_is_gone() -> None:
    comparison = entered([op("all_reduce", 1)], [op("all_reduce", 1)], [])
    comparison.gone(2)
    assert comparison.agreed(GROUP) == 1
    assert comparison.dispute() is None


PROGRAMS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=6)


@given(PROGRAMS, st.randoms(use_true_random=False))
def test_equal_programs_agree_in_whatever_order_they_are_heard(program: list[str], random: object) -> None:
    comparison = Comparison()
    position = [0, 0, 0]
    while any(p < len(program) for p in position):
        rank = random.choice([r for r in range(3) if position[r] < len(program)])  # type: ignore[attr-defined]
        position[rank] += 1
        comparison.enter(rank, GROUP, position[rank], op(program[position[rank] - 1], position[rank]))
    for rank in range(3):
        comparison.leave(rank, GROUP, len(program))
    assert comparison.dispute() is None
    assert comparison.agreed(GROUP) == len(program)


@given(PROGRAMS, PROGRAMS, st.permutations([0, 1, 2]))
def test_different_programs_never_pass(usual: list[str], other: list[str], order: list[int]) -> None:
    programs = [usual, other, usual]
    comparison = entered(*[[op(name, at) for at, name in enumerate(p)] for p in programs], order=order)
    for rank in order:
        comparison.leave(rank, GROUP, len(programs[rank]))
    assert (comparison.dispute() is None) == (usual == other)
    if usual != other:
        assert said(comparison).startswith("rank 1 ")
