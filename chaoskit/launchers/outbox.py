"""The warden's end of its connection with the runner: events out, the order to end in. Never blocks.

The runner reads with a plain ``multiprocess.connection.Connection``; this side writes the same frames
(length as four bytes, then the message) from a queue of its own, as a runner that is stopped must not
keep the warden from its work.
"""

from __future__ import annotations

import select
import socket
import struct
from typing import Final

from chaoskit import history

_LENGTH: Final = struct.Struct("!i")
END: Final = b"end"
"""What the runner sends to have everything ended."""


class Outbox:
    """``gone`` once the runner has closed its end: it is dead, or done with this arm."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)
        self._pending = bytearray()
        self._received = b""
        self.gone = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, event: history.Event) -> None:
        """Queue ``event`` and send as much of the queue as goes."""
        body = history.to_line(event).encode()
        self._pending += _LENGTH.pack(len(body)) + body
        self.flush()

    def flush(self) -> None:
        """Send as much of the queue as goes."""
        try:
            while self._pending and not self.gone:
                del self._pending[: self._socket.send(self._pending, socket.MSG_NOSIGNAL)]
        except BlockingIOError:
            return
        except OSError:
            self.gone = True

    @property
    def pending(self) -> bool:
        return bool(self._pending) and not self.gone

    def told_to_end(self) -> bool:
        """Read what the runner sent; True when it (now or before) told the warden to end."""
        try:
            data = self._socket.recv(4096)
        except BlockingIOError:
            data = None
        except OSError:
            data = b""
        if data == b"":
            self.gone = True
        self._received = (self._received + (data or b""))[-4096:]
        return END in self._received

    def deliver(self) -> None:
        """Wait until all is sent or the runner is gone."""
        while self.pending:
            select.select([], [self._socket], [])
            self.flush()

    def close(self) -> None:
        self._socket.close()
