"""Which parameter differs, on which rank, and after which step first: from what the ranks kept."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.history import Event, History, ParameterSum, Replicated
from chaoskit.judge import first_difference, replicas
from chaoskit.judge.job import Job
from chaoskit.judge.rules import replica
from chaoskit.model import Blame, Culprit, Kind
from chaoskit.parameter_sums import Moment

NAMES = ("layers.0.weight", "layers.0.bias", "head.weight", "head.bias")
Held = dict[int, tuple[int, ...]]
"""The numbers of each rank."""


def alike(size: int = 4) -> Held:
    return dict.fromkeys(range(size), (10, 20, 30, 40))


def but(held: Held, rank: int, *indices: int, by: int = 1) -> Held:
    changed = tuple(n + by * (index in indices) for index, n in enumerate(held[rank]))
    return {**held, rank: changed}


def moments(
    steps: Mapping[int, Held], ordinal: int = 0, final: Sequence[int] = (), names: tuple[str, ...] = NAMES
) -> dict[int, list[Moment]]:
    """What each rank keeps, given what it holds after each step; ``final`` are those of the end."""
    found: dict[int, list[Moment]] = {}
    for step, held in steps.items():
        for slot, numbers in held.items():
            at = Moment(100.5, step, ordinal, step in final, hash(numbers) >> 1, names, numbers)
            found.setdefault(slot, []).append(at)
    return found


def recorded(kept: Mapping[int, Sequence[Moment]], since: int = 0, size: int = 4) -> Story:
    """The same in the history, from step ``since`` on: earlier checks are lost."""
    story = Story(size=size)
    for slot, of in kept.items():
        for m in of:
            if m.step >= since:
                event = Replicated(story.tick(), slot, m.step, m.checksum, m.final, m.ordinal)
                story.add(event)
    return story


def judged(story: Story, kept: Mapping[int, Sequence[Moment]]) -> tuple[tuple[Event, ...], Blame | None]:
    added = first_difference.events(story.events, kept)
    history = History.of((*story.events, *added))
    assert first_difference.events(history.events, kept) in ((), added)
    return added, replica.find(Job.of(history))


def test_the_parameter_is_named_with_rank_and_step() -> None:
    kept = moments({n: alike() if n < 3 else but(alike(), 2, 0) for n in range(6)})
    added, blame = judged(recorded(kept), kept)
    assert blame is not None
    assert (blame.culprits, blame.kind, blame.ambiguous) == ((Culprit("rank", "2"),), Kind.DIVERGED, False)
    assert blame.reason == (
        "rank 2 holds other parameters than the others after step 3 (equal still after step 2), "
        "first in layers.0.weight (1 of 4 parameters differs)"
    )
    assert blame.evidence == (
        "layers.0.weight: rank 2 holds other bits than ranks 0, 1, 3 after step 3",
        "all ranks held the same after step 2, the last check before",
    )
    assert [(e.slot, e.step, e.name) for e in added if isinstance(e, ParameterSum)] == [
        (slot, 3, "layers.0.weight") for slot in range(4)
    ]
    assert len(added) == 4, "checks are told that the history has already"


def test_ranks_that_hold_the_same_add_nothing() -> None:
    kept = moments({n: alike() for n in range(6)}, final=(5,))
    assert judged(recorded(kept), kept) == ((), None)


def test_checks_that_the_recorder_lost_are_told_from_what_was_kept() -> None:
    kept = moments({n: alike() if n < 3 else but(alike(), 1, 3) for n in range(50)})
    added, blame = judged(recorded(kept, since=40), kept)
    assert blame is not None
    assert "after step 3 (equal still after step 2), first in head.bias" in blame.reason
    assert {e.step for e in added if isinstance(e, Replicated)} == {2, 3}


def test_what_was_not_kept_of_the_first_check_is_said() -> None:
    kept = moments({n: alike() if n < 3 else but(alike(), 1, 3) for n in range(9)})
    thin = {slot: [m for m in of if m.step % 4 == 0] for slot, of in kept.items()}
    _, blame = judged(recorded(kept), thin)
    assert blame is not None
    assert blame.reason.endswith("after step 3 (equal still after step 2)")
    assert blame.evidence[:2] == (
        "head.bias: rank 1 holds other bits than ranks 0, 2, 3 after step 4",
        "1 of 4 differ there; which ones did before was not kept",
    )


def test_without_files_it_is_said_that_nothing_was_kept() -> None:
    kept = moments({0: but(alike(), 1, 3)})
    added, blame = judged(recorded(kept), {})
    assert blame is not None
    assert (added, blame.evidence) == ((), ("which parameters differ was not kept",))


def test_two_ranks_that_differ_each_in_another_parameter_are_told_apart() -> None:
    kept = moments({1: but(but(alike(3), 0, 1), 2, 3)})
    story = recorded(kept, size=3)
    compared = replicas.compare(Job.of(story.history)).difference
    assert compared is not None
    assert not compared.clear
    _, blame = judged(story, kept)
    assert blame is not None
    assert (blame.culprits, blame.ambiguous) == ((Culprit("rank", "0"), Culprit("rank", "2")), False)
    assert blame.evidence[0] == "layers.0.bias: rank 0 holds other bits than ranks 1, 2 after step 1"
    assert blame.evidence[1] == "head.bias: rank 2 holds other bits than ranks 0, 1 after step 1"


def test_of_two_ranks_the_parameter_is_named_and_nobody_else() -> None:
    kept = moments({0: alike(2), 1: but(alike(2), 1, 2)})
    _, blame = judged(recorded(kept, size=2), kept)
    assert blame is not None
    assert (blame.ambiguous, len(blame.culprits)) == (True, 2)
    assert "first in head.weight (1 of 4 parameters differs), and no majority" in blame.reason
    assert blame.evidence[0] == "head.weight: ranks 0, 1 hold different bits after step 1"


def test_many_parameters_are_counted_and_few_listed() -> None:
    names = tuple(f"layer.{n}" for n in range(100))
    held: Held = {slot: tuple(range(100)) for slot in range(3)}
    held[1] = tuple(n + (n >= 10) for n in range(100))
    kept = moments({4: held}, names=names)
    added, blame = judged(recorded(kept, size=3), kept)
    assert blame is not None
    assert len(added) == 3 * first_difference.NAMED
    assert "first in layer.10 (90 of 100 parameters differ)" in blame.reason
    assert len(blame.evidence) == 5
    assert blame.evidence[4].endswith("layer.25 and 74 more differ after step 4, too")


def test_a_difference_at_the_end_alone() -> None:
    """Also where the ranks made different numbers of updates."""
    kept = moments({0: alike(), 1: alike()})
    for slot, numbers in but(alike(), 3, 1).items():
        step = 5 + slot % 2
        kept[slot].append(Moment(101.0, step, 0, True, hash(numbers) >> 1, NAMES, numbers))
    _, blame = judged(recorded(kept), kept)
    assert blame is not None
    assert blame.culprits == (Culprit("rank", "3"),)
    assert "at the end (equal still after step 1), first in layers.0.bias" in blame.reason
    assert blame.evidence[0].endswith("at the end")


def test_what_rank_0_loads_at_the_end_is_no_difference() -> None:
    kept = moments({0: alike(), 1: alike(), 2: but(alike(), 0, 0)}, final=(2,))
    assert judged(recorded(kept), kept) == ((), None)


def test_models_are_told_apart() -> None:
    first, second = moments({n: alike() for n in range(5)}), moments({n: alike() for n in range(3)}, 1)
    late = moments({3: but(alike(), 0, 0)}, 1, names=("a", "b", "c", "d"))
    kept = {slot: first[slot] + second[slot] + late[slot] for slot in first}
    _, blame = judged(recorded(kept), kept)
    assert blame is not None
    assert "after step 3 (equal still after step 2), first in a (1 of 4" in blame.reason


def test_a_rank_with_other_parameters_is_compared_as_a_whole() -> None:
    kept = moments({1: alike()})
    kept[3] = [Moment(100.0, 1, 0, False, 5, ("x",), (1,))]
    added, blame = judged(recorded(kept), kept)
    assert blame is not None
    assert (added, blame.culprits) == ((), (Culprit("rank", "3"),))


def test_a_time_out_of_a_file_never_lies_outside_of_what_is_known() -> None:
    kept = moments({1: but(alike(), 1, 1)})
    for slot, of in kept.items():
        kept[slot] = [Moment(1e300, *(getattr(m, n) for n in Moment.__slots__[1:])) for m in of]
    story = Story()
    added, _ = judged(story, kept)
    times = [e.t_s for e in story.events]
    assert added
    assert all(min(times) <= e.t_s <= max(times) for e in added)


def test_what_the_guard_found_is_told_with_the_parameter() -> None:
    kept = moments({50: but(alike(), 2, 3)})
    story = recorded(kept)
    story.fired(
        0, "consistency", 88, "rank 2 holds other values of DDP(Net) than ranks 0, 1, 3 after step 50"
    )
    story.end(0, 88)
    history = History.of((*story.events, *first_difference.events(story.events, kept)))
    blame = replica.guarded(Job.of(history))
    assert blame is not None
    assert "first in head.bias" in blame.reason
    assert blame.evidence[-1].startswith("guard consistency: rank 2 holds")


@given(
    steps=st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True),
    since=st.integers(0, 30),
    odd=st.integers(0, 4),
    where=st.integers(0, 3),
    lost=st.integers(0, 30),
)
def test_whatever_the_recorder_lost_the_first_kept_check_is_found(
    steps: list[int], since: int, odd: int, where: int, lost: int
) -> None:
    taken = sorted(steps)
    kept = moments({n: alike(5) if n < since else but(alike(5), odd, where) for n in taken})
    _, blame = judged(recorded(kept, since=lost, size=5), kept)
    differ = [n for n in taken if n >= since]
    if not differ:
        assert blame is None
        return
    assert blame is not None
    assert blame.culprits == (Culprit("rank", str(odd)),)
    assert f"after step {differ[0]}" in blame.reason
    assert f"first in {NAMES[where]} (1 of 4 parameters differs)" in blame.reason


@given(
    st.dictionaries(
        st.integers(0, 3),
        st.lists(
            st.builds(
                lambda step, ordinal, final, checksum, numbers: Moment(
                    1.0, step, ordinal, final, checksum, NAMES[: len(numbers)], tuple(numbers)
                ),
                st.integers(0, 4), st.integers(0, 1), st.booleans(), st.integers(0, 2),
                st.lists(st.integers(0, 1), max_size=3),
            ),
            max_size=8,
        ),
    )
)  # fmt: skip
def test_any_files_at_all_are_borne(kept: dict[int, list[Moment]]) -> None:
    judged(Story(), kept)
