"""Numbers the threads of a script in the order in which they enter operations.

Standard library only. It knows nothing of operations.
"""

from __future__ import annotations

import threading
from typing import Final

MOST: Final = 15
"""All further threads share this number: each number is a part of a form, and room for these is short."""


class Threads:
    """The numbers of one process: 0 is the main thread.

    A thread that C++ made (autograd has one for each device) works for the main thread, which waits for it in
    ``backward()``, and has its number. A thread may get the number of one that has ended.
    """

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def number(self, ident: int) -> int:
        """Return the number of the thread with this identifier, which is alive."""
        number = self._numbers.get(ident)
        if number is None:
            number = self._numbers[ident] = self._next() if _is_scripts(ident) else 0
        return number

    def _next(self) -> int:
        return min(max(self._numbers.values(), default=0) + 1, MOST)


def _is_scripts(ident: int) -> bool:
    """Was this thread started by Python code, and is it not the main thread?"""
    known = next((t for t in threading.enumerate() if t.ident == ident), None)
    foreign = known is None or isinstance(known, threading._DummyThread)
    return not foreign and known is not threading.main_thread()
