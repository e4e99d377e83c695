"""What is wrong with a roll: pure."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from chaoskit.guards.roll import Entry, conflict, missing, ranks_text, sides


def job(size: int = 4) -> list[Entry]:
    return [Entry(rank, rank, size, "h", 100 + rank, "torchrun") for rank in range(size)]


def changed(at: int, **changes: object) -> list[Entry]:
    entries = job()
    entries[at] = dataclasses.replace(entries[at], **changes)  # type: ignore[arg-type]
    return entries


def test_a_healthy_roll_has_no_conflict_in_any_order_and_at_any_time() -> None:
    entries = job()
    for count in range(1, 5):
        assert conflict(entries[-count:]) == ""
    assert missing(entries, 1) == ""


def test_nobody_with_a_local_rank_is_healthy() -> None:
    assert conflict([dataclasses.replace(e, local_rank=-1) for e in job()]) == ""


def test_what_differs_is_named() -> None:
    assert conflict(changed(2, world_size=3)) == "rank 2 has WORLD_SIZE 3 where ranks 0, 1, 3 have 4"
    assert conflict(changed(2, rank=1)) == "RANK 1 is claimed by 2 processes: pid 101 on h, pid 102 on h"
    assert conflict(changed(2, local_rank=-1)) == "rank 2 has no LOCAL_RANK where the others have one"
    assert conflict(changed(2, rank=4)) == "rank 4 (pid 102 on h) does not exist in a world of 4"
    assert (
        conflict(changed(2, trouble="RANK is not set", rank=-1))
        == "a process without a rank (pid 102 on h): RANK is not set"
    )


def test_who_is_missing_is_named() -> None:
    assert (
        missing([job()[0], job()[3]], 5) == "ranks 1, 2 of 4 have not come within 5 s (ranks 0, 3 are here)"
    )
    assert missing(job()[:3], 5) == "rank 3 of 4 has not come within 5 s (ranks 0-2 are here)"


def test_ranks_are_written_short() -> None:
    assert ranks_text([3]) == "rank 3"
    assert ranks_text([0, 1, 3]) == "ranks 0, 1, 3"
    assert ranks_text([0, 1, 2, 3, 7]) == "ranks 0-3, 7"


@given(st.dictionaries(st.integers(0, 9), st.sampled_from("ab"), min_size=1))
def test_the_smaller_side_comes_first(values: dict[int, str]) -> None:
    few, most = sides(values)
    assert sorted(few + most) == sorted(values)
    assert len(few) <= len(most)
    assert len({values[rank] for rank in most}) == 1


@given(st.integers(-1, 9), st.integers(-1, 9), st.integers(-1, 9), st.text(), st.integers(0, 9), st.text())
def test_an_entry_survives_the_store(
    rank: int, local: int, size: int, host: str, pid: int, trouble: str
) -> None:
    entry = Entry(rank, local, size, host, pid, "srun", trouble)
    assert Entry.from_json(entry.to_json().encode()) == entry
