"""The language of ``-k``: words with ``and``, ``or``, ``not`` and parentheses.

A word is true of a scenario when it is part of its name, family or one of its tags, whatever
the case. Stdlib only; it evaluates nothing but these words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")
_DEEPEST = 50

Predicate = Callable[[Collection[str]], bool]
"""Told the texts of a scenario, says whether the expression is true of it."""


def parse(expression: str) -> Predicate:
    """Return the predicate of ``expression``. Raises ValueError with what is wrong with it."""
    tokens = _TOKEN.findall(expression)
    if not tokens:
        raise ValueError("the expression is empty")
    predicate, rest = _either(tokens, 0)
    if rest:
        raise ValueError(f"unexpected {rest[0]!r}")
    return predicate


def _either(tokens: list[str], depth: int) -> tuple[Predicate, list[str]]:
    parts = []
    part, tokens = _both(tokens, depth)
    parts.append(part)
    while tokens[:1] == ["or"]:
        part, tokens = _both(tokens[1:], depth)
        parts.append(part)
    return (lambda texts: any(p(texts) for p in parts)), tokens


def _both(tokens: list[str], depth: int) -> tuple[Predicate, list[str]]:
    parts = []
    part, tokens = _single(tokens, depth)
    parts.append(part)
    while tokens[:1] == ["and"]:
        part, tokens = _single(tokens[1:], depth)
        parts.append(part)
    return (lambda texts: all(p(texts) for p in parts)), tokens


def _single(tokens: list[str], depth: int) -> tuple[Predicate, list[str]]:
    if depth > _DEEPEST:
        raise ValueError(f"nested deeper than {_DEEPEST}")
    match tokens:
        case []:
            raise ValueError("something is missing at the end")
        case ["not", *rest]:
            inner, after = _single(rest, depth + 1)
            return (lambda texts: not inner(texts)), after
        case ["(", *rest]:
            group, after = _either(rest, depth + 1)
            if after[:1] != [")"]:
                raise ValueError("a closing parenthesis is missing")
            return group, after[1:]
        case [")" | "and" | "or" as token, *_]:
            raise ValueError(f"unexpected {token!r}")
        case [word, *rest]:
            return _contains(word.casefold()), rest
    raise AssertionError("unreachable")


def _contains(word: str) -> Predicate:
    return lambda texts: any(word in text.casefold() for text in texts)
