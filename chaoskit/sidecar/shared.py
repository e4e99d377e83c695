"""A page of memory that the keeper and its rank share: what the rank writes there can be read without asking
it, also while it is stopped, holds the GIL, or is gone.

Anonymous, made before the fork; an ``exec`` in the rank loses it (see :class:`chaoskit.sidecar.protection`).
Each word has one writer: the rank.
"""

from __future__ import annotations

import enum
import mmap
import os


class Word(enum.IntEnum):
    """The words of 64 bits, by index."""

    BEAT_NS = 0
    """When a Python thread of the rank last ran (CLOCK_MONOTONIC); 0 before the first time."""
    PROGRESS = 1
    """Grows with every step and completed collective."""
    ALLOWED_UNTIL_NS = 2
    """No progress and no beat is due until then: a declared phase."""
    WORK_DONE = 3
    """1 once the script's work is done: an end with exit 0 is no early exit."""
    STEP = 4
    """The last step that is done."""
    FOLLOWED = 5
    """1 where PROGRESS is written at all."""
    LEAVING = 6
    """1 once the interpreter ends: no Python thread runs from then on, and nothing is wrong with that."""


class Shared:
    """The page. After a fork in the rank (a loader's worker) writes of the child's do nothing."""

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
        self._writer = 0

    def write_here(self) -> None:
        """Make this process the writer."""
        self._writer = os.getpid()

    def read(self, word: Word) -> int:
        return self._words[word]

    def write(self, word: Word, value: int) -> None:
        if os.getpid() == self._writer:
            self._words[word] = value

    def count(self, word: Word) -> None:
        self.write(word, self._words[word] + 1)
