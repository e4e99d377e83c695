"""The file of a history: what is written is read again, and what is damaged is named, line by line."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit import history, recorded
from chaoskit.history import (
    ArmEnded,
    Completed,
    Entered,
    Event,
    Lost,
    OpFailed,
    Raised,
    Replicated,
    Started,
    Stepped,
)
from chaoskit.recorded import COMPLETED, FAILED, OPEN, Form

ANY_TIME = st.one_of(
    st.floats(0, 1e6),
    st.integers(0, 10**15).map(lambda ns: ns / 1e9),
    st.sampled_from([0.0, 1.0, 1, 2.5, -1.0]),
)
SLOTS = st.integers(-1, 3)
SMALL = st.one_of(st.integers(0, 3), st.sampled_from([-1, 2**32 - 1, 2**32, 2**70]))
WORDS = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, -1, 2**64]))
TEXTS = st.sampled_from(["", "all_reduce", "bröadcast\n", "a:1"])
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "op": TEXTS,
    "group": TEXTS,
    "nth": SMALL,
    "step": SMALL,
    "seq": SMALL,
}
FORMS: dict[str, st.SearchStrategy[Any]] = {
    "site": TEXTS,
    "shape": TEXTS,
    "dtype": TEXTS,
    "members": st.lists(st.integers(0, 3), max_size=2).map(tuple),
    "peer": st.integers(-1, 2),
    "thread": st.integers(0, 1),
}
EVENTS = st.one_of(
    st.builds(Entered, ANY_TIME, SLOTS, **KEYS, fingerprint=WORDS, **FORMS),
    st.builds(Completed, ANY_TIME, SLOTS, **KEYS),
    st.builds(OpFailed, ANY_TIME, SLOTS, **KEYS, message=TEXTS),
    st.builds(Stepped, ANY_TIME, SLOTS, SMALL),
    st.builds(Replicated, ANY_TIME, SLOTS, SMALL, WORDS, st.booleans(), SMALL),
    st.builds(Started, ANY_TIME, SLOTS, SMALL),
    st.builds(Lost, ANY_TIME, SLOTS, SMALL),
)
REUSED = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)


@st.composite
def operations(draw: st.DrawFn) -> list[Event]:
    """Operations as ranks record them: most complete, one after the other."""
    found: list[Event] = []
    for slot in range(draw(st.integers(1, 3))):
        for seq in range(1, draw(st.integers(1, 8))):
            t_s = draw(st.sampled_from([float(seq), seq + slot / 8, seq + 0.5]))
            key = ("all_reduce", draw(st.sampled_from(["default", "pair"])), seq, 1, seq)
            found.append(Entered(t_s, slot, *key, draw(st.integers(0, 2)), "a.py:1", "4", "f", (0, 1)))
            end = draw(st.sampled_from(["completes", "completes", "completes", "fails", "open"]))
            if end == "completes":
                found.append(Completed(t_s + draw(st.sampled_from([0.0, 0.25, 3.0])), slot, *key))
            elif end == "fails":
                found.append(OpFailed(t_s + 0.25, slot, *key, "Connection closed"))
    return found


def ordered(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda e: e.t_s)


# ---------------------------------------------------------------- events


@REUSED
@given(parts=st.lists(st.one_of(st.lists(EVENTS, max_size=12), operations()), min_size=1, max_size=3))
def test_what_is_written_is_read_again_in_the_same_order(parts: list[list[Event]], tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.unlink(missing_ok=True)
    events = [e for part in parts for e in part]
    history.write(path, events)
    found, problems = history.read(path)
    assert not problems
    assert list(found.events) == ordered(events)
    assert [type(e.t_s) for e in found.events if isinstance(e, Lost)] == [
        type(e.t_s) for e in ordered(events) if isinstance(e, Lost)
    ]


@REUSED
@given(first=operations(), second=operations())
def test_a_file_that_is_appended_to_holds_both(
    first: list[Event], second: list[Event], tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    path.unlink(missing_ok=True)
    later = [dataclasses.replace(e, t_s=e.t_s + 100.0) for e in second]
    history.write(path, first)
    history.write(path, later)
    found, problems = history.read(path)
    assert (list(found.events), problems) == ([*ordered(first), *ordered(later)], [])


@given(EVENTS)
def test_a_line_is_its_event(event: Event) -> None:
    line = history.to_line(event)
    assert "\n" not in line
    assert json.loads(line)["kind"] == type(event).__name__
    assert history.from_line(line) == event


@pytest.mark.parametrize("t_s", ["NaN", "Infinity", "1e999", "1" + "0" * 400, "true", '"1"', "null", "[1]"])
def test_a_time_is_a_number(t_s: str) -> None:
    with pytest.raises(ValueError, match="t_s"):
        history.from_line(f'{{"kind":"Started","t_s":{t_s},"slot":0,"pid":1}}')


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[]", "not an event"),
        ('{"kind":["Started"]}', "not an event"),
        ('{"kind":"Begun","t_s":1.0,"slot":0}', "not an event"),
        ('{"kind":"Started","t_s":1.0}', "missing slot, pid"),
        ('{"kind":"Ended","t_s":1.0,"slot":0,"exit_code":0,"by":"me"}', "by cannot be 'me'"),
        ('{"kind":"Ended","t_s":1.0,"slot":0,"exit_code":true}', "exit_code cannot be True"),
        (
            '{"kind":"Raised","t_s":1.0,"slot":0,"type":"E","message":"","category":"own","stack":[1]}',
            "stack",
        ),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("(", "\\(")):
        history.from_line(line)


def test_a_value_that_a_later_version_added_does_not_hurt() -> None:
    line = '{"kind":"Started","t_s":1.0,"slot":0,"pid":1,"cgroup":"x"}'
    assert history.from_line(line) == Started(1.0, 0, 1)


# ---------------------------------------------------------------- columns


@REUSED
@given(events=st.one_of(operations(), st.lists(EVENTS, max_size=20)))
def test_columns_hold_the_same_as_the_events(events: list[Event], tmp_path: Path) -> None:
    """Whether the file is written as columns, as of now, or line by line, as by earlier versions and live."""
    now, before = tmp_path / "now", tmp_path / "before"
    now.unlink(missing_ok=True)
    history.write(now, events)
    before.write_text("".join(history.to_line(e) + "\n" for e in ordered(events)))
    for path in (now, before):
        found = recorded.read(path)
        assert not found.problems
        assert sorted(map(repr, map(_float, found.all_events()))) == sorted(map(repr, map(_float, events)))
        for rows in found.rows.values():
            assert {len(column) for column in rows.columns} == {len(rows)}
            assert list(rows.entered_s) == sorted(rows.entered_s)
            assert all(math.isnan(t) == (how == OPEN) for t, how in zip(rows.ended_s, rows.how, strict=True))


def _float(event: Event) -> Event:
    return dataclasses.replace(event, t_s=float(event.t_s))


def test_a_recorded_arm_as_columns(tmp_path: Path) -> None:
    form = ("a.py:1", "4", "float32", (0, 1), -1, 1)
    events = [
        Started(1.0, 0, 77),
        Entered(2.0, 0, "all_reduce", "default", 1, 0, 1, 9, *form),
        Completed(2.5, 0, "all_reduce", "default", 1, 0, 1),
        Entered(3.0, 0, "all_reduce", "default", 2, 1, 2, 9, *form),
        OpFailed(3.5, 0, "all_reduce", "default", 2, 1, 2, "lost"),
        Stepped(3.6, 0, 1),
        Entered(4.0, 0, "all_reduce", "default", 3, 1, 3, 9, *form),
        Completed(5.0, 1, "barrier", "default", 7, 1, 30),
        ArmEnded(6.0, -1),
    ]
    path = tmp_path / "history.jsonl"
    history.write(path, events)
    found = recorded.read(path)
    rows = found.rows[0]
    assert found.forms == (Form("all_reduce", "default", "a.py:1", "4", "float32", (0, 1), -1, 1),)
    assert (list(rows.entered_s), list(rows.ended_s)[:2]) == ([2.0, 3.0, 4.0], [2.5, 3.5])
    assert list(rows.how) == [COMPLETED, FAILED, OPEN]
    assert [list(c) for c in (rows.form, rows.nth, rows.step, rows.seq)] == [
        [0] * 3,
        [1, 2, 3],
        [0, 1, 1],
        [1, 2, 3],
    ]
    assert list(rows.fingerprint) == [9, 9, 9]
    # An end without its entry (that was overwritten) is told among the events.
    assert list(found.events) == [events[0], *events[4:6], *events[7:]]
    recorded.write(path, found)
    assert repr(recorded.read(path)) == repr(found)  # nan is equal to nothing
    assert history.read(path)[0].events == tuple(events)


def test_the_file_says_what_it_is_and_names_each_form_once(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    events: list[Event] = []
    for seq in range(1, 601):
        events.append(
            Entered(seq * 1.0, 0, "all_reduce", "default", seq, 1, seq, 9, "a.py:1", "4", "f", (0, 1))
        )
        events.append(Completed(seq + 0.5, 0, "all_reduce", "default", seq, 1, seq))
    history.write(path, events)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["Layout", "Form", "Operations", "Operations", "Operations"]
    assert (lines[2]["nth"], lines[2]["seq"], lines[2]["step"], lines[2]["form"]) == (1, 1, 1, lines[1]["id"])


# ---------------------------------------------------------------- damage


def written(path: Path) -> list[str]:
    """The lines of a file with columns of each kind."""
    events: list[Event] = [Started(0.5, slot, 1) for slot in range(2)]
    for slot in range(2):
        for seq in range(1, 21):
            t_s = seq + slot / 4
            key = ("all_reduce", "default", seq, seq // 5, seq)
            events.append(Entered(t_s, slot, *key, 9, "a.py:1", "4", "f", (0, 1)))
            events.append(Completed(t_s + 0.1, slot, *key))
            events.append(Stepped(t_s + 0.11, slot, seq))
            events.append(Replicated(t_s + 0.12, slot, seq, 7))
    history.write(path, [*events, Raised(50.0, 1, "E", "x", "own"), ArmEnded(60.0, -1)])
    return path.read_text().splitlines()


def test_a_line_that_is_cut_off_or_corrupt_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    lines = written(path)
    whole = len(history.read(path)[0].events)
    for number, line in enumerate(lines):
        for damaged in (line[: len(line) // 2], line.replace(":", ";", 1), "\x00" * 9, line + line):
            path.write_text("\n".join([*lines[:number], damaged, *lines[number + 1 :]]))
            found, problems = history.read(path)
            told = [p.line for p in problems]
            assert number + 1 in told
            assert all("unreadable event" in p.message for p in problems)
            assert len(found.events) < whole or json.loads(line)["kind"] == "Layout"
            assert len(recorded.read(path).problems) == len(problems)


CHANGEABLE = {"op", "group", "site", "shape", "dtype", "members", "peer", "thread"}
"""Of a form: with another value of the type it is another form."""
WRONG: list[Any] = [
    None,
    True,
    "x",
    {},
    [[1]],
    [1],
    -5,
    2**80,
    [None],
    ["x"],
    [1.5, 2],
    float("nan"),
    [1e400],
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_columns_of_other_types_are_damage_and_never_an_exception(wrong: object, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    lines = written(path)
    for number, line in enumerate(lines):
        raw = json.loads(line)
        if raw["kind"] in history.EVENT_TYPES:
            continue
        for key in raw:
            path.write_text(
                "\n".join([*lines[:number], json.dumps({**raw, key: wrong}), *lines[number + 1 :]])
            )
            found = recorded.read(path)
            fits = raw["kind"] == "Form" and type(wrong) is type(raw[key]) and key in CHANGEABLE
            assert found.problems or fits, (raw["kind"], key)
            found.all_events()
            without = {k: v for k, v in raw.items() if k != key}
            path.write_text("\n".join([*lines[:number], json.dumps(without), *lines[number + 1 :]]))
            assert recorded.read(path).problems, (raw["kind"], key)


@REUSED
@given(data=st.data())
def test_any_bytes_are_read_without_an_exception(data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.unlink(missing_ok=True)
    body = "\n".join(written(path)).encode()
    at, over = data.draw(st.integers(0, len(body))), data.draw(st.integers(0, 40))
    path.write_bytes(body[:at] + data.draw(st.binary(max_size=20)) + body[at + over :])
    found, problems = history.read(path)
    columns = recorded.read(path)
    assert len(columns.problems) == len(problems)
    assert len(columns.all_events()) == len(found.events)


def test_columns_of_a_layout_that_is_not_known_are_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    lines = written(path)
    path.write_text("\n".join(lines).replace('"version":1', '"version":2'))
    found = recorded.read(path)
    assert len(found.problems) == 1
    assert "its layout is 2" in found.problems[0]
    assert not found.rows
    assert [type(e) for e in found.events] == [Started, Started, Raised, ArmEnded]


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    for read in (history.read, recorded.read):
        with pytest.raises(OSError, match="No such file"):
            read(tmp_path / "none")
