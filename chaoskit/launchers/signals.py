"""The signals that a warden gets, as something that a selector can wait for."""

from __future__ import annotations

import os
import signal
from typing import Final

ORDERS_TO_END: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Signals:
    """Catches SIGCHLD and what is meant to end this process, from its making on."""

    def __init__(self) -> None:
        self._reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *ORDERS_TO_END):
            signal.signal(number, lambda *_: None)

    def fileno(self) -> int:
        return self._reader

    def read(self) -> list[int]:
        """Take in what came; return the signals among them that order this process to end."""
        try:
            numbers = os.read(self._reader, 4096)
        except BlockingIOError:
            return []
        return sorted(set(numbers) & set(ORDERS_TO_END))
