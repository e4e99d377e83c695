"""What a rank prints, from a pipe into a file of bounded size: its first and last 64 KiB, without secrets.

Never blocks and never waits for the end of the pipe, which a daemon of the rank may hold open. Only what is
kept is searched for secrets, so a flood of output costs no more than before.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from chaoskit import private
from chaoskit.redacting import Redactor

HEAD_BYTES: Final = 64 * 1024
TAIL_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024
PUMP_BYTES: Final = 4 * _READ_BYTES
"""Most bytes taken from one pipe before the caller looks at more important things."""


class Capture:
    """One stream of one rank. The head is written line by line as it comes, the tail by :meth:`finish`.

    What cannot be written (a full disk) is dropped: output must never end an arm. No secret that ``redactor``
    knows is written, in whole or in part: a line that has not ended yet is kept back while it is short.
    """

    def __init__(self, pipe: int, path: Path, redactor: Redactor | None = None) -> None:
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self._path = path
        self._file = private.opener(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._redactor = redactor or Redactor()
        self._head_left = HEAD_BYTES
        self._line = bytearray()  # of the head, and not written yet
        self._tail = bytearray()
        self._of_head = 0  # so many bytes of the tail belong to the head
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
            self._line += head
            if self._head_left:
                self._write_lines()
            else:  # whether a secret lies across the head's end is known only with what follows
                self._tail, self._line, self._of_head = self._line, bytearray(), len(self._line)
        self._tail += chunk
        if len(self._tail) >= 2 * TAIL_BYTES:  # not each time: moving the tail costs more than the read
            self._end_head()
            self._cut(self._redactor.reach)

    def _write_lines(self) -> None:
        end = max(self._line.rfind(b"\n"), self._line.rfind(b"\r")) + 1
        reach = self._redactor.reach
        if len(self._line) - end > reach:
            end = self._redactor.around(self._line, len(self._line) - reach)[0]
        if end > 0:
            self._write(self._redactor.data(bytes(self._line[:end])))
            del self._line[:end]

    def _end_head(self) -> None:
        """Write what of the tail belongs to the head, but for a secret that goes on behind it."""
        if self._of_head:
            end = self._redactor.around(self._tail, self._of_head)[0]
            self._write(self._redactor.data(bytes(self._tail[:end])))
            del self._tail[:end]
            self._of_head = 0

    def _cut(self, more: int) -> None:
        """Leave the tail with its last TAIL_BYTES and ``more``; without more, no secret is cut in two."""
        surplus = len(self._tail) - TAIL_BYTES - more
        if surplus > 0:
            surplus = surplus if more else self._redactor.around(self._tail, surplus)[1]
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
        kept = bytes(self._line or self._tail)
        if len(kept) < limit:
            with contextlib.suppress(OSError):
                kept = self._path.read_bytes() + kept
        begin = self._redactor.around(kept, max(0, len(kept) - limit))[1]
        return self._redactor.data(kept[begin:]).decode(errors="replace")

    def finish(self) -> None:
        """Take what is left in the pipe, write the tail, close everything. Bounded, whoever still writes."""
        self.pump(32 * PUMP_BYTES)
        self._write(self._redactor.data(bytes(self._line)))
        self._line.clear()
        self._end_head()
        self._cut(0)
        if self._dropped:
            self._write(f"\n[chaoskit: {self._dropped} bytes of output left out here]\n".encode())
        self._write(self._redactor.data(bytes(self._tail)))
        self.abandon()

    def abandon(self) -> None:
        """Close the descriptors and no more (in a forked child, or after :meth:`finish`)."""
        for fd in (self.pipe, self._file):
            os.close(fd)
        self.pipe = self._file = -1
