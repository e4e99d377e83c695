"""A condensed history is judged as the whole one: what tells of a fault is never left out."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from histories import Story
from plans import plan_of

from chaoskit.history import Completed, Entered, Event, History, LeftOut, Lost, OpFailed
from chaoskit.history_file import Batch
from chaoskit.judge import blame, outcome
from chaoskit.judge.condensing import Room, condensed
from chaoskit.operations import Forms
from chaoskit.recorded import gathered

SIZE = 4
SMALL = Room(newest=120, unsettled=100_000, around=40, block=2)
"""Room for thirty newest operations of each rank, and for all that is unsettled."""
TINY = Room(newest=24, unsettled=100_000, around=8, block=2)
NO_FAULT = plan_of(size=SIZE, expected_result=7.0)


def condense(events: Sequence[Event], room: Room = SMALL) -> History:
    """Condense what is told as columns, and see that it is the same if it is told event by event."""
    whole = gathered(events)

    def columns() -> tuple[Forms, Iterable[Event | Batch]]:
        forms = Forms()
        for form in whole.forms:
            forms.number(form)
        return forms, [*(Batch(slot, rows) for slot, rows in whole.rows.items()), *whole.events]

    found = History.of(condensed(columns, room))
    one_by_one = History.of(condensed(lambda: (Forms(), iter(events)), room))
    assert found.events == one_by_one.events
    return found


def round_of(story: Story, ops: Sequence[tuple[str, str]], but: tuple[int, ...] = ()) -> None:
    for group, op in ops:
        ranks = [r for r in range(SIZE) if r not in but]
        for rank in ranks:
            story.enter(rank, op, group=group, members=tuple(range(SIZE)))
        for rank in ranks:
            story.complete(rank)


def healthy(rounds: int, ops: Sequence[tuple[str, str]] = (("default", "all_reduce"),)) -> Story:
    story = Story(SIZE)
    for _ in range(rounds):
        round_of(story, ops)
    return story


def entered(history: History) -> dict[int, list[int]]:
    """The seq of what is there of each slot."""
    found: dict[int, list[int]] = defaultdict(list)
    for event in history.all(Entered):
        found[event.slot].append(event.seq)
    return found


# ---------------------------------------------------------------- what is kept, and what is not


def test_of_a_healthy_job_the_first_and_the_newest_operations_are_kept() -> None:
    story = healthy(100)
    story.finish(*range(SIZE))
    found = condense(story.history.events, TINY)
    assert dict(entered(found)) == {slot: [1, *range(96, 101)] for slot in range(SIZE)}
    told = found.all(LeftOut)
    assert [(e.slot, e.count, e.messages) for e in told] == [(slot, 94, 0) for slot in range(SIZE)]
    assert {e.t_s for e in told} == {min(e.t_s for e in found.all(Entered) if e.seq == 96)}
    assert outcome.find(NO_FAULT, found) == outcome.find(NO_FAULT, story.history)


def test_a_fingerprint_that_differs_early_is_found() -> None:
    story = healthy(20)
    for rank in range(SIZE):
        story.enter(rank, "all_reduce", fingerprint=99 if rank == 2 else 11, shape="8", dtype="f")
    for rank in range(SIZE):
        story.complete(rank)
    for _ in range(300):
        round_of(story, [("default", "all_reduce")])
    story.finish(*range(SIZE))
    found = condense(story.history.events, TINY)
    assert len(found.all(Entered)) < 350
    assert [str(c) for c in blame.find(found).culprits] == ["rank 2"]
    assert blame.find(found) == blame.find(story.history)


def test_operations_that_a_fault_was_aimed_at_are_kept() -> None:
    story = healthy(20)
    story.inject(1, op="all_reduce", group="default", nth=9, phase="before")
    for _ in range(100):
        round_of(story, [("default", "all_reduce")])
    found = condense(story.history.events, TINY)
    assert all({9} <= set(seqs) for seqs in entered(found).values())


def test_a_number_that_is_missing_is_damage_in_what_is_left_too() -> None:
    story = healthy(100)
    story.finish(*range(SIZE))
    for gone in (5, 60, 100):
        events = [e for e in story.history.events if getattr(e, "seq", 0) != gone or e.slot != 1]
        found = outcome.find(NO_FAULT, condense(events))
        if gone < 100:  # the last one leaves no gap
            assert "are missing in the history" in found.unjudgeable
        assert found == outcome.find(NO_FAULT, History.of(events))


def test_more_that_is_unsettled_than_there_is_room_for_is_lost_but_for_its_ends() -> None:
    story = healthy(10)
    for number in range(200):
        for rank in range(SIZE):
            story.enter(rank, "all_reduce", fingerprint=number if rank == 3 else 11)
            story.complete(rank)
    found = condense(story.history.events, Room(newest=24, unsettled=80, around=8, block=2))
    assert len(found.all(Entered)) < 200
    assert [e.slot for e in found.all(Lost)] == [0, 1, 2, 3]
    assert [str(c) for c in blame.find(found).culprits] == ["rank 3"]
    assert blame.find(found).at == blame.find(story.history).at
    assert {e.count for e in found.all(Lost)} == {210 - len(entered(found)[0]) - found.all(LeftOut)[0].count}


def test_sends_and_receives_are_left_out_once_they_are_done() -> None:
    story = Story(2)
    for _ in range(100):
        story.enter(0, "send", peer=1)
        story.enter(1, "recv", peer=0)
        story.complete(1)
        story.complete(0)
        story.everyone("barrier")
    found = condense(story.history.events, Room(newest=16, unsettled=100, around=4, block=2))
    assert len(found.all(Entered)) < 40
    assert all(0 < e.messages < e.count for e in found.all(LeftOut))


# ---------------------------------------------------------------- random jobs

Op = tuple[str, str]
"""Group and operation."""
OPS = st.tuples(st.sampled_from(["default", "pair"]), st.sampled_from(["all_reduce", "broadcast", "barrier"]))
FAULTS = ("none", "skips", "extra", "fingerprint", "swaps", "stalls", "dies", "fails")
ENDS = ("timeout", "deadline", "goes on")


@dataclass(frozen=True)
class Script:
    """A training loop in which one rank does one thing wrong, and what comes of it."""

    program: list[Op]
    rounds: int
    fault: str
    guilty: int
    at: int  # the number of the operation, from 0; of the whole run modulo its length
    extra: Op
    end: str
    code: int
    lost: list[int]  # the oldest records of each rank that are overwritten

    def play(self) -> list[Event]:
        story = Story(SIZE)
        run = self.program * self.rounds
        at = self.at % len(run)
        own = list(run)
        if self.fault == "skips":
            del own[at]
        elif self.fault == "extra":
            own.insert(at, self.extra)
        elif self.fault == "swaps":
            own[at : at + 2] = own[at : at + 2][::-1]
        for number in range(max(len(run), len(own))):
            entries = {rank: own if rank == self.guilty else run for rank in range(SIZE)}
            ops = {rank: of[number] for rank, of in entries.items() if number < len(of)}
            broken = number == at and self.fault in ("stalls", "dies", "fails")
            if broken and self.fault != "fails":
                del ops[self.guilty]
            odd = self.guilty if self.fault == "fingerprint" and number == at else -1
            for rank, (group, op) in ops.items():
                mark = 77 if rank == odd else None
                story.enter(rank, op, group=group, fingerprint=mark, shape="8", members=tuple(range(SIZE)))
            if broken or (self.end != "goes on" and (odd >= 0 or len(set(ops.values())) > 1)):
                self._end(story, list(ops))
                return list(story.history.events)
            for rank in ops:
                story.complete(rank)
        story.finish(*range(SIZE))
        return list(story.history.events)

    def _end(self, story: Story, waiting: list[int]) -> None:
        if self.fault == "dies":
            story.end(self.guilty, self.code)
        elif self.fault == "fails":
            story.raised(self.guilty, "own", "ValueError")
            story.end(self.guilty, 1)
            waiting.remove(self.guilty)
        elif self.end == "timeout":
            story.timed_out(*waiting)
            if self.guilty not in waiting:
                story.end(self.guilty, -9, "launcher")
            return
        else:
            story.still(*range(SIZE))
            story.deadline(*range(SIZE))
            return
        for rank in waiting:
            story.victim(rank)

    def overwritten(self) -> list[Event]:
        """The same with each rank's oldest records overwritten."""
        events = self.play()
        last = {e.slot: e.seq for e in events if isinstance(e, RECORDS)}
        gone = {slot: min(n, max(0, last.get(slot, 0) - 3)) for slot, n in enumerate(self.lost)}
        kept = [e for e in events if not isinstance(e, RECORDS) or e.seq > gone[e.slot]]
        return [*kept, *(Lost(kept[-1].t_s, slot, n) for slot, n in gone.items() if n)]


RECORDS = (Entered, Completed, OpFailed)
SCRIPTS = st.builds(
    Script,
    program=st.lists(OPS, min_size=1, max_size=4),
    rounds=st.integers(2, 40),
    fault=st.sampled_from(FAULTS),
    guilty=st.integers(0, SIZE - 1),
    at=st.integers(0, 159),
    extra=OPS,
    end=st.sampled_from(ENDS),
    code=st.sampled_from([-9, 1, 3]),
    lost=st.lists(st.integers(0, 30), min_size=SIZE, max_size=SIZE),
)


def assert_judged_alike(events: list[Event]) -> None:
    whole, found = History.of(events), condense(events)
    assert blame.find(found) == blame.find(whole)
    assert outcome.find(NO_FAULT, found) == outcome.find(NO_FAULT, whole)


@settings(max_examples=60, deadline=None)
@given(SCRIPTS)
def test_what_is_said_of_a_condensed_history_is_what_is_said_of_the_whole(script: Script) -> None:
    assert_judged_alike(script.play())


@settings(max_examples=60, deadline=None)
@given(SCRIPTS)
def test_so_it_is_where_records_were_overwritten(script: Script) -> None:
    assert_judged_alike(script.overwritten())
