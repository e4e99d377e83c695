"""What a timeline is made of: waiting apart from working, cells, bars, marks, as a script reads them."""

from __future__ import annotations

import base64
import dataclasses
import json
import math

import html_arms
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit import recorded
from chaoskit.history import Completed, Ended, Entered, Event, GuardFired, Injected, Raised, Replicated
from chaoskit.model import Culprit
from chaoskit.reports.frame.data import in_script
from chaoskit.reports.html import arm_view, bins, lanes, marks, packing, timeline
from chaoskit.reports.html.scene import at_fault

BITS = 0x7F


def read_numbers(text: str) -> list[int]:
    """As decode.js does."""
    found, value, place = [], 0, 1
    for byte in base64.b64decode(text):
        value += (byte & BITS) * place
        place *= 128
        if byte <= BITS:
            found.append(value)
            value, place = 0, 1
    return found


@given(st.lists(st.integers(0, 2**50)))
def test_numbers_come_back(values: list[int]) -> None:
    assert read_numbers(packing.numbers(values)) == values


@given(st.lists(st.tuples(*[st.integers(0, 63)] * 4), max_size=200))
def test_cells_come_back(values: list[packing.Cell]) -> None:
    text, found, i = packing.cells(values), [], 0
    while i < len(text):
        if text[i] == "*":
            found += [found[-1]] * packing.DIGITS.index(text[i + 1])
            i += 2
        else:
            found.append(tuple(packing.DIGITS.index(c) for c in text[i : i + 4]))
            i += 4
    assert found == values


@given(st.text(st.characters()))
def test_no_text_leaves_its_script_element(text: str) -> None:
    packed = in_script({text: [text]})
    assert not set("<>&\u2028\u2029") & set(packed)
    assert packed.isascii()
    assert json.loads(packed) == {text: [text]}


def of(*events: Event, ends_s: float = 100.0) -> dict[int, lanes.Lane]:
    made = recorded.gathered(sorted(events, key=lambda e: e.t_s))
    return lanes.lanes(made, {s: s for s in made.rows}, dict.fromkeys(made.rows, ends_s))


def entered(t_s: float, slot: int, nth: int = 1, **more: object) -> Entered:
    fields = {"op": "all_reduce", "group": "default", "step": 1, "seq": nth, "members": (0, 1), **more}
    return Entered(t_s, slot, nth=nth, **fields)  # type: ignore[arg-type]


def completed(t_s: float, slot: int, nth: int = 1, op: str = "all_reduce") -> Completed:
    return Completed(t_s, slot, op, "default", nth, 1, nth)


def test_waiting_lasts_until_the_last_member_enters() -> None:
    found = of(entered(1.0, 0), entered(3.0, 1), completed(4.0, 0), completed(4.5, 1))
    assert list(found[0].waited_s) == [3.0]
    assert list(found[1].waited_s) == [3.0]
    assert list(found[0].ends_s) == [4.0]


def test_where_a_member_never_enters_all_of_it_is_waiting() -> None:
    found = of(entered(1.0, 0), entered(1.0, 1, nth=7), ends_s=9.0)
    assert list(found[0].waited_s) == [9.0] == list(found[0].ends_s)


def test_the_wait_ends_with_the_operation_that_gave_up() -> None:
    found = of(entered(1.0, 0), completed(2.0, 0), entered(5.0, 1), completed(6.0, 1))
    assert list(found[0].waited_s) == [2.0]


def test_groups_of_the_same_name_without_a_member_in_common_do_not_meet() -> None:
    found = of(entered(1.0, 0, members=(0,)), entered(5.0, 1, members=(1,)), completed(6.0, 0))
    assert list(found[0].waited_s) == [1.0]


def test_a_recv_from_anyone_waits_for_nobody_that_is_known() -> None:
    found = of(
        entered(1.0, 0, op="recv", nth=1), entered(2.0, 1, op="recv", nth=1), completed(5.0, 1, 1, "recv")
    )
    assert [list(lane.waited_s) for lane in found.values()] == [[1.0], [2.0]]


def test_a_send_waits_for_its_recv_whatever_their_own_counts_are() -> None:
    found = of(
        entered(0.5, 0, op="send", peer=2, nth=1),
        entered(1.0, 0, op="send", peer=1, nth=2),
        entered(4.0, 1, op="recv", peer=0, nth=1),
        completed(5.0, 0, 2, "send"),
        completed(5.0, 1, 1, "recv"),
    )
    assert list(found[0].waited_s) == [100.0, 4.0]
    assert list(found[1].waited_s) == [4.0]


times = st.floats(0.0, 10.0)


@given(st.lists(st.tuples(times, times, times), min_size=1, max_size=30), st.integers(1, 50))
def test_cells_hold_all_the_time_of_operations(spans: list[tuple[float, float, float]], count: int) -> None:
    ordered = sorted(tuple(sorted(span)) for span in spans)
    rows = recorded.Rows()
    lane = lanes.Lane(rows, type(rows.entered_s)("d"), type(rows.entered_s)("d"))
    for start, waited, end in ordered:
        rows.entered_s.append(start)
        rows.form.append(0)
        lane.waited_s.append(waited)
        lane.ends_s.append(end)
    sums = bins._Sums(count, 1)
    sums.add_all(lane, [0], 0.0, 10.0 / count)
    assert math.isclose(sum(sums.waiting), sum(w - s for s, w, _ in ordered), abs_tol=1e-6)
    assert math.isclose(sum(sums.working), sum(e - w for _, w, e in ordered), abs_tol=1e-6)
    assert sum(sums.entered) == len(ordered)
    assert all(0 <= n <= 63 for cell in list(bins.cells_of(lane, [0], 0.0, 10.0, count)) for n in cell[:3])


def drawn(room: int, operations: int = 20, ranks: int = 4) -> tuple[dict[str, object], timeline.Timeline]:
    made = html_arms.arm(recorded=recorded.gathered(html_arms.events(ranks, operations)))
    ready = arm_view.prepare(made)
    found = timeline.build(made, ready.scene, ready.marks, ready.lanes, room)
    assert found is not None
    return json.loads(found.data), found


def test_a_short_arm_is_shown_one_by_one() -> None:
    data, found = drawn(200_000)
    assert found.left_out == ""
    rows = data["rows"]
    assert [r["name"] for r in rows] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert [r["culprit"] for r in rows] == [False, True, False, False]
    assert data["hosts"] == [["host0", ""], ["host1", ""]]
    numbers = read_numbers(rows[0]["bars"][0])
    # Entry 4 ms before the last member's, 6 ms of operation; the first is #1 and of step 1.
    assert numbers[:6] == [116_000, 4_000, 6_000, 0 << 3 | 1 << 1 | 1, 0, 2]
    assert numbers[6:10] == [20_000, 4_000, 6_000, 0 << 3 | 1 << 1 | 1]
    assert {line[1] for line in data["lines"]} == {"injection", "bound", "error", "deadline"}
    assert {m[2] for m in data["marks"]} >= {"injected", "stopped", "guard", "error", "signal", "exit"}


@pytest.mark.parametrize(
    ("culprit", "guilty", "hosts"),
    [
        (Culprit("host", "host1"), [2, 3], ["", ""]),
        (Culprit("nic", "host1 eth0"), [], ["", "nic eth0"]),
        (Culprit("link", "host0–host1"), [], ["link host0–host1"] * 2),
        (Culprit("rank", "2"), [2], ["", ""]),
    ],
)
def test_the_culprit_is_marked_whatever_it_is(culprit: Culprit, guilty: list[int], hosts: list[str]) -> None:
    made = html_arms.arm(dataclasses.replace(html_arms.VERDICT, culprits=(culprit,)))
    ready = arm_view.prepare(made)
    assert [p.rank for p in ready.scene.processes if p.culprit] == guilty
    assert [at_fault(host, made.verdict) for host in ready.scene.hosts] == hosts


def test_of_a_long_arm_the_end_is_exact_and_the_rest_is_summed_up() -> None:
    data, found = drawn(30_000, operations=4000)
    assert "one by one" in found.left_out
    assert len(found.data) < 30_000
    for row in data["rows"]:
        assert row["cells"]
        assert row["exact"][-1][1] == data["length"]
        assert row["count"] in (3999, 4000)


def test_without_room_there_is_no_timeline() -> None:
    made = html_arms.arm()
    ready = arm_view.prepare(made)
    assert timeline.build(made, ready.scene, ready.marks, ready.lanes, 500) is None


def test_the_first_error_is_no_end_by_chaoskit_and_no_good_end() -> None:
    guard = GuardFired(5.0, 2, "watchdog", 84, "stuck")
    found = marks.find((Ended(1.0, 0, 0), Ended(2.0, 1, -9, "supervisor"), guard, Ended(6.0, 3, 1)))
    assert (first := marks.first_error(found)) is not None
    assert first.slot == 2


def test_what_came_to_several_ranks_is_one_line() -> None:
    lost = [Raised(float(n), n, "RuntimeError", "closed", "peer_lost") for n in (0, 2, 3)]
    found = marks.course(marks.find((Injected(0.0, 1, 0, "kill"), *lost)), {n: n for n in range(4)})
    assert [m.who for m in found] == ["rank 1", "ranks 0, 2, 3"]
    assert (found[1].from_s, found[1].until_s) == (0.0, 3.0)


def test_the_first_difference_of_replicas_is_a_mark() -> None:
    sums = [
        Replicated(1.0, 0, 1, 7),
        Replicated(1.1, 1, 1, 7),
        Replicated(2.0, 0, 2, 8),
        Replicated(2.1, 1, 2, 9),
    ]
    (found,) = marks.find(sums)
    assert (found.kind, found.slot, found.t_s) == ("diverged", 1, 2.1)


@pytest.mark.parametrize("message", ["", html_arms.HOSTILE, "x" * 100_000])
def test_marks_are_safe_and_short(message: str) -> None:
    made = html_arms.arm(
        recorded=recorded.gathered([*html_arms.events(), Raised(99.0, 0, message, message, "own", message)])
    )
    ready = arm_view.prepare(made)
    found = timeline.build(made, ready.scene, ready.marks, ready.lanes, 100_000)
    assert found is not None
    assert len(found.data) < 20_000
