"""The peer that waits at its entry, so that an operation cannot complete before the fault has fired.

With phase *during* the target hands its operation to the backend and fires. Were all peers in it, it might
complete all the same, so one of them, the *holder*, enters only afterwards. The holder may not wait longer
than it has to: while it does, it is missing in the operation itself.
"""

from __future__ import annotations

import mmap
import os
import select
import time
from typing import Final

from chaoskit.rank.region import RANK_FILE, Channels, Word, map_region
from chaoskit.rank.triggers import Shot

LONGEST_WAIT_S: Final = 10.0
"""For the fault to fire at all."""
AFTER_FIRED_S: Final = 2.0
"""From the fault to the end or stop of the target; the launcher tells of that within milliseconds."""
_POLL_MS: Final = 1


class Peers:
    """What this rank can see of the others: their words in shared memory, and the launcher's release."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._words: dict[int, memoryview] = {}
        self._release_id = _kind_of(channels.release)

    def watch(self, slot: int) -> None:
        """Map the region of ``slot`` now, as the script may close the descriptor later."""
        if slot not in self._words and (memory := self._map(slot)) is not None:
            self._words[slot] = memoryview(memory)[:4096].cast("Q")

    def _map(self, slot: int) -> mmap.mmap | None:
        """The memory of ``slot``; None where it is a file that is not there (yet, or on this machine)."""
        if not self._channels.folder:
            return map_region(self._channels.memfd, slot)
        try:
            with open(os.path.join(self._channels.folder, f"rank{slot}", RANK_FILE), "r+b") as file:
                return map_region(file.fileno(), 0)
        except (OSError, ValueError):
            return None

    def hold(self, shot: Shot, targets: list[int]) -> None:
        """Wait until the fault has fired on all ``targets`` and what follows from it has happened. Returns at
        once where one of them cannot be seen from here: the judge then misses the proof."""
        for slot in targets:
            self.watch(slot)
        if any(slot not in self._words for slot in targets):
            return
        give_up = time.monotonic() + LONGEST_WAIT_S
        poll = select.poll()
        if self._release_id is not None and _kind_of(self._channels.release) == self._release_id:
            poll.register(self._channels.release, select.POLLIN)
        fired = False
        while time.monotonic() < give_up:
            if self._all(Word.RELEASED, shot, targets):
                return
            if not fired and self._all(Word.FIRED, shot, targets):
                fired = True
                give_up = time.monotonic() + AFTER_FIRED_S
            if poll.poll(_POLL_MS):
                return

    def _all(self, word: Word, shot: Shot, targets: list[int]) -> bool:
        return all(t in self._words and self._words[t][word] >> shot.bit & 1 for t in targets)


def _kind_of(fd: int) -> str | None:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None
