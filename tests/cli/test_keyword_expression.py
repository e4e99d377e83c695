"""The language of ``-k``."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.cli.keyword_expression import parse

TEXTS = ("rank-killed-mid-all-reduce", "process", "quick")


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("killed", True),
        ("KILLED", True),
        ("memory", False),
        ("not memory", True),
        ("process and quick", True),
        ("process and memory", False),
        ("memory or quick", True),
        ("not (memory or quick)", False),
        ("memory and quick or process", True),
        ("memory and (quick or process)", False),
        ("not not killed", True),
        ("(killed)and(process)", True),
    ],
)
def test_expressions(expression: str, matches: bool) -> None:
    assert parse(expression)(TEXTS) is matches


@pytest.mark.parametrize(
    "expression", ["", " ", "and", "a and", "a b", "(a", "a)", "()", "not", "a or or b", "(" * 9999]
)
def test_what_is_wrong_is_said(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(expression)


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab ()ndortx"), max_size=40))
def test_anything_else_parses_or_says_why(expression: str) -> None:
    said: bool | str
    try:
        said = parse(expression)(TEXTS)
    except ValueError as error:
        said = str(error)
    assert said in (True, False) or said
