"""What a rank prints, from a pipe into a file of bounded size: its first and its last 64 KiB.

Never blocks and never waits for the end of the pipe, which a daemon of the rank may hold open.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

HEAD_BYTES: Final = 64 * 1024
TAIL_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024
PUMP_BYTES: Final = 4 * _READ_BYTES
"""Most bytes taken from one pipe before the caller looks at more important things."""


class Capture:
    """One stream of one rank. The head is written as it comes, the tail by :meth:`finish`.

    What cannot be written (a full disk) is dropped: output must never end an arm.
    """

    def __init__(self, pipe: int, path: Path) -> None:
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._head_left = HEAD_BYTES
        self._tail = bytearray()
        self._dropped = 0

    def pump(self, limit: int = PUMP_BYTES) -> bool:
        """Take what is there, at most about ``limit`` bytes; return False at the end of the pipe."""
        while limit > 0:
            try:
                chunk = os.read(self.pipe, _READ_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not chunk:
                return False
            limit -= len(chunk)
            self._keep(chunk)
        return True

    def _keep(self, chunk: bytes) -> None:
        if self._head_left:
            head, chunk = chunk[: self._head_left], chunk[self._head_left :]
            self._head_left -= len(head)
            self._write(head)
        self._tail += chunk
        if len(self._tail) >= 2 * TAIL_BYTES:  # not each time: moving the tail costs more than the read
            self._cut()

    def _cut(self) -> None:
        surplus = len(self._tail) - TAIL_BYTES
        if surplus > 0:
            del self._tail[:surplus]
            self._dropped += surplus

    def _write(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            self._dropped += len(view)

    def last(self, limit: int) -> str:
        """Return the last ``limit`` bytes or less of what has come so far."""
        self.pump()
        kept = bytes(self._tail[-limit:])
        if len(kept) < limit:
            with contextlib.suppress(OSError):
                kept = (self._path.read_bytes() + kept)[-limit:]
        return kept.decode(errors="replace")

    def finish(self) -> None:
        """Take what is left in the pipe, write the tail, close everything. Bounded, whoever still writes."""
        self.pump(32 * PUMP_BYTES)
        self._cut()
        if self._dropped:
            self._write(f"\n[chaoskit: {self._dropped} bytes of output left out here]\n".encode())
        self._write(self._tail)
        self.abandon()

    def abandon(self) -> None:
        """Close the descriptors and no more (in a forked child, or after :meth:`finish`)."""
        for fd in (self.pipe, self._file):
            os.close(fd)
        self.pipe = self._file = -1
