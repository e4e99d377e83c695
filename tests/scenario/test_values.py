"""Durations, rank sets and the kinds that type hints give."""

from __future__ import annotations

import contextlib
import enum
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.model import RankSet, Span
from chaoskit.scenario.values import Wrong, duration_s, folder_name, kind_of, rank_set, span, yaml_key


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("300s", 300),
        ("2m", 120),
        ("150ms", 0.15),
        ("1.5h", 5400),
        ("5 s", 5),
        (3, 3),
        (0.5, 0.5),
        ("7", 7),
        (0, 0),
    ],
)
def test_durations(text: object, expected: float) -> None:
    assert duration_s(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("fast", "must be a duration, is 'fast'"),
        ("2 min", "unknown unit 'min'"),
        ("1m30s", "must be a duration"),
        ("5x", "unknown unit 'x'"),
        (-1, "less than 0"),
        ("-1s", "must be a duration"),
        (True, "is true"),
        (None, "is nothing"),
        ([1], "is a list"),
        ({}, "is a mapping"),
        ("1000h", "more than 30 days"),
        (1e300, "more than 30 days"),
        ("", "is ''"),
        ("9" * 400 + "s", "more than 30 days"),
    ],
)
def test_bad_durations_say_why(value: object, part: str) -> None:
    with pytest.raises(Wrong) as caught:
        duration_s(value)
    assert part in caught.value.message


def test_a_long_unit_is_answered_with_the_short_one() -> None:
    with pytest.raises(Wrong) as caught:
        duration_s("2 minutes")
    assert caught.value.hint == "write 2m"


@given(st.one_of(st.text(max_size=12), st.integers(), st.floats(), st.none(), st.booleans()))
def test_anything_is_a_duration_or_wrong(value: object) -> None:
    with contextlib.suppress(Wrong):
        assert 0 <= duration_s(value) <= 30 * 86400


def test_spans() -> None:
    assert span("2s") == Span(2.0)
    assert span({"timeout": "init", "times": 3, "plus": "500ms"}) == Span(0.5, "init", 3.0)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({}, "timeout must be one of"),
        ({"timeout": "colective"}, "is 'colective'"),
        ({"timeout": "init", "times": 0}, "above 0"),
        ({"timeout": "init", "plus": "x"}, "plus: must be a duration"),
        ({"timeout": "init", "minus": 1}, "unknown key `minus`"),
        ({"timeout": ["init"]}, "is a list"),
        ({"timeout": "init", "times": True}, "is true"),
        ({1: 2}, "unknown key `1`"),
    ],
)
def test_bad_spans_say_why(value: object, part: str) -> None:
    with pytest.raises(Wrong) as caught:
        span(value)
    assert part in caught.value.message


def test_rank_sets() -> None:
    assert rank_set(1) == (1,)
    assert rank_set([3, 1]) == (3, 1)
    assert rank_set("all") == "all"
    for bad in (-1, "1", [], [1, 1], [True], 5000, None, 1.0, {"rank": 1}):
        with pytest.raises(Wrong):
            rank_set(bad)


class Colour(enum.StrEnum):
    RED = "red"


def test_kinds_follow_type_hints() -> None:
    assert kind_of(RankSet, "rank").read(2) == (2,)
    assert kind_of(Span | float | Literal["forever"], "for_s").read("forever") == "forever"
    assert kind_of(Span | float | Literal["forever"], "for_s").read("2s") == 2.0
    assert kind_of(Span, "for_s").read("2s") == Span(2.0)
    assert kind_of(float | None, "wait_s").read(None) is None
    assert kind_of(float, "factor").read(2) == 2.0
    assert kind_of(Colour, "colour").read("red") is Colour.RED
    assert kind_of(tuple[str, ...], "names").read(["a"]) == ("a",)
    assert kind_of(tuple[tuple[str, str], ...], "set").read({"A": 1}) == (("A", "1"),)
    assert kind_of(tuple[int, ...] | None, "codes").read(None) is None
    assert kind_of(int | str, "signal").read(9) == 9
    with pytest.raises(TypeError, match="no YAML value"):
        kind_of(complex, "z")


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (int, "1", "must be a whole number, is '1'"),
        (int, True, "must be a whole number, is true"),
        (bool, 1, "must be true or false, is 1"),
        (str, 5, "must be a text, is 5"),
        (Literal["a", "b"], "c", "must be one of a, b, is 'c'"),
        (tuple[int, ...], 5, "must be a list, is 5"),
        (int | Literal["auto"], 1.5, "must be a whole number or auto, is 1.5"),
    ],
)
def test_a_wrong_value_gives_one_message(hint: object, value: object, message: str) -> None:
    with pytest.raises(Wrong) as caught:
        kind_of(hint, "field").read(value)
    assert caught.value.message == message


def test_keys() -> None:
    assert [yaml_key(n) for n in ("for_s", "class_", "nth", "early_exit_wait_s")] == [
        "for",
        "class",
        "nth",
        "early_exit_wait",
    ]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../../x", "a\nb", "\x1b[31m", "nul\0", "sur\ud800", "x" * 81, 3]
)
def test_what_is_no_name_of_a_folder(name: object) -> None:
    with pytest.raises(Wrong):
        folder_name(name)
    assert folder_name("- other's arm ü") == "- other's arm ü"
