"""The compact forms in which a page carries its timelines; timeline.js reads exactly these. Pure.

*Numbers* are base64 of variable-length integers (7 bits a byte, the lowest first, the high bit: more follow).
*Cells* are four characters of :data:`DIGITS` each: shares of a span of time in 63rds, then an operation, then
a count; ``*`` and a digit repeat the cell before that often.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable
from typing import Final

DIGITS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
FULL: Final = len(DIGITS) - 1

Cell = tuple[int, int, int, int]


def numbers(values: Iterable[int]) -> str:
    """Return non-negative integers as text."""
    packed = bytearray()
    append = packed.append
    for value in values:
        left = value
        while left > 127:
            append(left & 127 | 128)
            left >>= 7
        append(left)
    return base64.b64encode(packed).decode("ascii")


def signed(value: int) -> int:
    """Return a non-negative integer for any: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def cells(values: Iterable[Cell]) -> str:
    """Return cells as text. Each number is cut to what a digit can say."""
    texts = ("".join(DIGITS[min(n, FULL)] for n in cell) for cell in values)
    parts = []
    for text, same in itertools.groupby(texts):
        more = sum(1 for _ in same) - 1
        parts.append(text)
        while more > 0:
            parts.append("*" + DIGITS[min(more, FULL)])
            more -= FULL
    return "".join(parts)


def share(part: float, whole: float) -> int:
    """Return ``part`` of ``whole`` in 63rds; what is there at all is seen."""
    if part <= 0 or whole <= 0:
        return 0
    return max(1, min(FULL, round(FULL * part / whole)))
