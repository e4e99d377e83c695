"""What a program does, read off a history."""

from __future__ import annotations

from chaoskit.history import BATCHES, Completed, Entered, Event, History, Identity, Reached, Stepped
from chaoskit.scenario.survey import Survey, survey_of


def identity(slot: int) -> Identity:
    return Identity(1.0, slot, slot, slot, 2, "host", 100 + slot, "chaoskit", "2.13")


def entered(slot: int, op: str, nth: int, step: int = 1, group: str = "default", shape: str = "4") -> Entered:
    return Entered(2.0 + step, slot, op, group, nth, step, nth, shape=shape)


def ran() -> Survey:
    events: list[Event] = [identity(0), identity(1)]
    for slot in (0, 1):
        events += [entered(slot, "init", 1, shape=""), entered(slot, "broadcast", 1)]
        events += [entered(slot, "all_reduce", n, (n + 1) // 2) for n in range(1, 7 if slot else 9)]
        events += [entered(slot, "barrier", 1, 4, shape=""), entered(slot, "all_gather", 1, 4, "left")]
        events += [Stepped(7.0, slot, n) for n in range(1, 4 + slot)]
        events += [Reached(8.0, slot, BATCHES, 5 + slot), Reached(8.0, slot, "call of f", 99)]
    events += [entered(0, "send", n, 4) for n in range(1, 40)]
    return survey_of(History.of([*events, Completed(9.5, 1, "barrier", "default", 1, 4, 9)]))


def test_what_every_rank_came_to() -> None:
    survey = ran()
    assert (survey.slots, survey.steps, survey.batches, survey.duration_s) == ((0, 1), 3, 5, 8.5)
    assert survey.groups == {"default", "left"}
    assert survey.started_s == 6.0  # to the first step; what has only been entered may never come to its end


def test_the_forming_of_groups_is_no_start() -> None:
    formed = Completed(3.0, 0, "init", "default", 1, 1, 1)
    reduced = Completed(21.0, 0, "all_reduce", "default", 1, 1, 2)
    assert survey_of(History.of([identity(0), formed])).started_s == 0.0
    assert survey_of(History.of([identity(0), identity(1), formed, reduced])).started_s == 20.0


def test_counts_are_what_all_that_are_asked_for_issue() -> None:
    survey = ran()
    assert [survey.count("all_reduce", "default", s) for s in ((0,), (1,), (0, 1))] == [8, 6, 6]
    assert survey.count("all_reduce", "default", (0, 1), step=2) == 2
    assert survey.count("init", "default", (0,)) == survey.count("barrier", "left", (0,)) == 0


def test_the_busiest_is_one_that_all_members_take_part_in() -> None:
    survey = ran()
    assert survey.busiest("default", (0, 1), with_tensors=True) == "all_reduce"
    assert survey.busiest("left", (0,), with_tensors=False) == "all_gather"
    assert survey.busiest("nowhere", (0,), with_tensors=False) == ""


def test_the_count_is_right_though_the_oldest_were_not_kept() -> None:
    survey = survey_of(History.of([identity(0), *(entered(0, "all_reduce", n) for n in range(900, 1001))]))
    assert survey.count("all_reduce", "default", (0,)) == 1000


def test_what_is_followed_by_another_operation_of_its_group() -> None:
    turns = [(t.op, t.nth) for t in ran().before_another((1,))]
    assert turns == [("broadcast", 1), ("all_reduce", 6)]
    assert [(t.op, t.nth) for t in ran().before_another((0, 1))] == [("broadcast", 1)]


def test_a_program_that_does_nothing() -> None:
    assert survey_of(History()) == Survey()
