"""The trace: valid by the rules of its format, whatever was recorded, and it shows who waited for whom."""

from __future__ import annotations

import io
import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.history import (
    Completed,
    DeadlineReached,
    Ended,
    Entered,
    Event,
    GuardFired,
    Identity,
    Injected,
    OpFailed,
    Raised,
    Started,
)
from chaoskit.recorded import Gathering, Recorded
from chaoskit.reports.trace import TracedArm, write, writing

Entry = dict[str, Any]


def recorded(events: Iterable[Event]) -> Recorded:
    gathering = Gathering()
    for event in events:
        gathering.add(event)
    return gathering.done()


def op(
    slot: int, entered_s: float, ended_s: float | None, nth: int = 1, name: str = "all_reduce", **more: Any
) -> list[Event]:
    """An operation of the group of ranks 0 to 2, which takes so long."""
    seq = more.pop("seq", nth)
    members = more.pop("members", (0, 1, 2))
    entered = Entered(entered_s, slot, name, "default", nth, 1, seq, members=members, **more)
    return [
        entered,
        *([Completed(ended_s, slot, name, "default", nth, 1, seq)] if ended_s is not None else []),
    ]


def trace(*arms: TracedArm) -> list[Entry]:
    """Return the events of the trace, checked against the rules of the format."""
    stream = io.BytesIO()
    write(arms, stream, {"torch": "2.13.0"})

    def refused(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    document = json.loads(stream.getvalue(), parse_constant=refused)
    entries = document["traceEvents"]
    assert isinstance(entries, list)
    check(entries)
    return entries


def check(entries: list[Entry]) -> None:
    for entry in entries:
        assert entry["ph"] in {"M", "X", "i", "s", "f"}
        assert type(entry["pid"]) is type(entry["tid"]) is int
        assert 0 < entry["pid"] < 2**31
        assert 0 <= entry["tid"] < 2**31
        assert type(entry["name"]) is str
        if entry["ph"] != "M":
            assert math.isfinite(entry["ts"])
            assert entry["ts"] >= 0
        if entry["ph"] == "X":
            assert entry["dur"] > 0
        if entry["ph"] == "i":
            assert entry["s"] in {"t", "p", "g"}
    drawn = check_slices(entries)
    check_arrows(entries, drawn)
    named = {e["pid"] for e in entries if e["name"] == "process_name"}
    threads = {e["tid"] for e in entries if e["name"] == "thread_name"}
    assert {e["pid"] for e in entries} <= named
    assert {e["tid"] for e in entries if e["ph"] in {"X", "s", "f"}} <= threads


def check_slices(entries: list[Entry]) -> dict[int, list[tuple[float, float]]]:
    """On one thread none begins before the one before it has ended: thousandths of a µs are rounded."""
    drawn = defaultdict(list)
    for entry in (e for e in entries if e["ph"] == "X"):
        drawn[entry["tid"]].append((entry["ts"], entry["ts"] + entry["dur"]))
    for slices in drawn.values():
        slices.sort()
        assert all(one[1] <= other[0] + 0.002 for one, other in itertools.pairwise(slices))
    return drawn


def check_arrows(entries: list[Entry], drawn: dict[int, list[tuple[float, float]]]) -> None:
    """Each begins once and ends once, later, both in an operation."""
    begins = {e["id"]: e for e in entries if e["ph"] == "s"}
    ends = {e["id"]: e for e in entries if e["ph"] == "f"}
    assert len(begins) == len(ends) == sum(e["ph"] in {"s", "f"} for e in entries) / 2
    assert begins.keys() == ends.keys()
    for number, begin in begins.items():
        end = ends[number]
        assert (begin["name"], begin["cat"]) == (end["name"], end["cat"])
        assert begin["ts"] <= end["ts"]
        for place in (begin, end):
            assert any(a - 0.002 <= place["ts"] <= b + 0.002 for a, b in drawn[place["tid"]])


def arrows(entries: list[Entry]) -> list[tuple[str, str, str]]:
    """Return what each arrow says, and from which process to which it leads."""
    name = {e["pid"]: e["args"]["name"] for e in entries if e["name"] == "process_name"}
    ends = {e["id"]: e for e in entries if e["ph"] == "f"}
    begins = (e for e in entries if e["ph"] == "s")
    return [(e["name"], name[e["pid"]], name[ends[e["id"]]["pid"]]) for e in begins]


def slices(entries: list[Entry], process: str) -> list[Entry]:
    (pid,) = (e["pid"] for e in entries if e["name"] == "process_name" and e["args"]["name"] == process)
    return [e for e in entries if e["ph"] == "X" and e["pid"] == pid]


def test_who_was_waited_for() -> None:
    seen = recorded([*op(0, 1.0, 2.0), *op(1, 1.5, 2.0), *op(2, 1.75, 2.0, site="train.py:3", shape="4")])
    entries = trace(TracedArm("", seen))
    assert arrows(entries) == [("waited for", "rank 2", "rank 0"), ("waited for", "rank 2", "rank 1")]
    (first,) = slices(entries, "rank 0")
    assert (first["ts"], first["dur"]) == (0.0, 1e6)
    assert first["args"]["waiting_s"] == 0.75
    assert first["args"]["waited_for"] == "rank 2"
    (last,) = slices(entries, "rank 2")
    assert last["args"] == {
        "nth": 1, "step": 1, "seq": 1, "group": "default", "site": "train.py:3", "shape": "4",
        "ended": "completed", "waiting_s": 0,
    }  # fmt: skip


def test_one_that_never_came_is_named_and_what_never_ended_is_drawn_to_the_end_of_its_rank() -> None:
    seen = recorded([*op(0, 1.0, None), *op(1, 1.5, None), Ended(4.0, 0, -9), Ended(6.0, 1, -9)])
    entries = trace(TracedArm("", seen))
    (first,) = slices(entries, "rank 0")
    assert first["dur"] == 3e6
    assert first["args"]["ended"] == "never"
    assert first["args"]["waiting_s"] == 3.0
    assert first["args"]["waited_for"] == "rank 2, which never came"
    assert arrows(entries) == [("waited for", "rank 1", "rank 0")]


def test_who_did_not_wait_has_no_arrow() -> None:
    seen = recorded([*op(0, 1.0, 1.2), *op(1, 1.5, 2.0), *op(2, 1.6, 2.0)])
    assert arrows(trace(TracedArm("", seen))) == [("waited for", "rank 2", "rank 1")]


def test_a_send_leads_to_its_recv_in_order() -> None:
    pair = {"members": (0, 1)}
    events = [
        *op(0, 1.0, 1.1, 1, "send", peer=1, **pair), *op(0, 1.2, 1.3, 2, "send", peer=1, **pair),
        *op(1, 1.0, 1.15, 1, "recv", peer=0, **pair), *op(1, 1.25, 1.4, 2, "recv", peer=0, **pair),
        *op(1, 2.0, 2.4, 3, "recv", peer=-1, **pair),
    ]  # fmt: skip
    entries = trace(TracedArm("", recorded(events)))
    assert arrows(entries) == [("sent", "rank 0", "rank 1")] * 2
    ends = [e["ts"] for e in entries if e["ph"] == "f"]
    assert [round(t / 1e3) for t in ends] == [150, 400]


def test_what_is_under_way_at_the_same_time_stands_in_lanes() -> None:
    events = [e for n in range(1, 4) for e in op(0, n / 10, 1.0, n)]
    events += op(0, 2.0, 2.5, 4) + op(0, 2.1, 2.6, 5, thread=1)
    entries = trace(TracedArm("", recorded(events)))
    names = [e["args"]["name"] for e in entries if e["name"] == "thread_name"]
    assert names == ["main thread", "main thread (2)", "main thread (3)", "thread 1"]


def test_what_happened_to_a_rank_and_to_the_arm() -> None:
    events = [
        Started(1.0, 0, 4711), Identity(1.1, 0, 0, 0, 2, "hostB", 1, "", ""), Started(1.0, 1, 4712),
        Injected(2.0, 0, 0, "kill"), Raised(2.5, 1, "TypeError", "x\nNaN", "own"),
        GuardFired(3.0, 1, "fail_fast", 82, "why"), DeadlineReached(4.0, -1, True, float("inf")),
        OpFailed(3.5, 1, "all_reduce", "default", 9, 1, 9, "lost"),
        Ended(5.0, 1, -9),
    ]  # fmt: skip
    entries = trace(TracedArm("", recorded(events), {1: "hostA"}))
    said = {e["name"]: e for e in entries if e["ph"] == "i"}
    assert set(said) == {
        "started", "fault: kill", "raised TypeError", "guard fail_fast ends the rank",
        "deadline: all are ended", "all_reduce #9 failed", "ended: SIGKILL",
    }  # fmt: skip
    assert said["fault: kill"]["cat"] == "fault"
    assert said["fault: kill"]["ts"] == 1e6
    assert said["deadline: all are ended"]["s"] == "g"
    assert said["deadline: all are ended"]["args"] == {"final": True, "extended_s": "inf", "over_s": 0.0}
    assert said["raised TypeError"]["args"]["message"] == r"x\nNaN"
    names = [e["args"]["name"] for e in entries if e["name"] == "process_name"]
    assert names == ["arm", "rank 0 (hostB)", "rank 1 (hostA)"]


def test_several_arms_and_a_rank_that_says_it_is_another() -> None:
    claimed = recorded([Identity(1.0, 3, 2, 0, 4, "here", 1, "", ""), *op(3, 1.0, 2.0)])
    entries = trace(TracedArm("a/control", claimed), TracedArm("a/hardened", recorded(op(0, 5.0, 6.0))))
    names = [e["args"]["name"] for e in entries if e["name"] == "process_name"]
    assert names == [
        "a/control arm", "a/control rank 3 (says it is 2)", "a/hardened arm", "a/hardened rank 0",
    ]  # fmt: skip
    assert [e["ts"] for e in entries if e["ph"] == "X"] == [0.0, 0.0]


def test_an_arm_of_which_nothing_was_recorded() -> None:
    assert [e["name"] for e in trace(TracedArm("", Recorded()))] == ["process_name", "process_sort_index"]


TIMES = st.floats(0, 1e6, allow_nan=False)
TEXT = st.one_of(st.sampled_from(["all_reduce", "default", "send", "recv", "init"]), st.text(max_size=12))
OPERATIONS = st.builds(
    lambda times, slot, text, group, nth, seq, peer, thread, members: [
        Entered(
            min(times), slot, text, group, nth, nth, seq, site=group, shape=text, dtype=text, peer=peer,
            thread=thread, members=members,
        ),
        Completed(max(times), slot, text, group, nth, nth, seq),
    ][: 1 + (nth % 3 > 0)],
    st.tuples(TIMES, TIMES), st.integers(0, 3), TEXT, TEXT, st.integers(0, 4), st.integers(0, 60),
    st.integers(-1, 4), st.integers(0, 50), st.sampled_from([(), (0, 1), (0, 1, 2, 3, 9)]),
)  # fmt: skip
OTHERS = st.one_of(
    st.builds(Ended, TIMES, st.integers(-1, 5), st.integers(-70, 300)),
    st.builds(Raised, TIMES, st.integers(0, 5), TEXT, TEXT, st.just("own"), TEXT, st.tuples(TEXT)),
    st.builds(Identity, TIMES, st.integers(0, 5), st.integers(-1, 5), *[st.integers(0, 5)] * 2, TEXT,
              st.integers(1, 9), TEXT, TEXT),
    st.builds(DeadlineReached, TIMES, st.just(-1), st.booleans(), st.floats()),
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(
    operations=st.lists(OPERATIONS, max_size=40),
    others=st.lists(OTHERS, max_size=8),
    name=st.text(max_size=8),
)
def test_whatever_was_recorded_the_trace_is_valid(
    operations: list[list[Event]], others: list[Event], name: str
) -> None:
    seen = recorded([*(e for one in operations for e in one), *others])
    entries = trace(TracedArm(name, seen), TracedArm("other", seen))
    drawn = Counter(e["cat"] for e in entries if e["ph"] in {"X", "i"} and "cat" in e)
    shown = drawn["collective"] + drawn["init"] + drawn["send"]
    assert shown == 2 * seen.operations


def test_of_very_many_operations_only_the_longest_waits_have_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, count = 4, 30
    everyone = {"members": tuple(range(ranks))}
    events = [
        e for slot in range(ranks) for n in range(1, count + 1)
        for e in op(slot, n + slot / 100, n + 0.5, n, **everyone)
    ]  # fmt: skip
    for slot in range(ranks - 1):  # the last rank does not come: there all who wait matter
        events += op(slot, count + 1 + slot / 100, None, count + 1, **everyone)
    seen = recorded(events)
    assert len(arrows(trace(TracedArm("", seen)))) == 3 * count + 2
    monkeypatch.setattr(writing, "ARROWS_MAX", 100)
    few = arrows(trace(TracedArm("", seen)))
    assert few.count(("waited for", "rank 3", "rank 0")) == count
    assert len(few) == count + 2


def test_it_is_written_piece_by_piece() -> None:
    seen = recorded(e for n in range(1, 20_001) for e in op(0, n, n + 0.5, n, members=(0,)))
    sizes: list[int] = []

    class Measuring(io.RawIOBase):
        def write(self, data: Any) -> int:
            sizes.append(len(data))
            return len(data)

    write([TracedArm("", seen)], Measuring(), {})  # type: ignore[arg-type]
    assert sum(sizes) > 2_000_000
    assert max(sizes) < sum(sizes) / 3
