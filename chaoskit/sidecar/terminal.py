"""Lets a rank read from the terminal although it is in a process group of its own, and be stopped by Ctrl-Z.

Only where a shell with job control started the keeper in the foreground; else nothing happens here.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Final

_KEYS: Final = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


class Terminal:
    """The controlling terminal, if this process leads the group in its foreground."""

    def __init__(self) -> None:
        self._fd = -1
        self._group = os.getpgrp()
        with contextlib.suppress(OSError):
            if os.isatty(0) and self._group == os.getpid() == os.tcgetpgrp(0):
                self._fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)

    def give_to(self, rank: int) -> None:
        """Put the rank's group in the foreground, if the keeper's is there now. Both do: the rank may read
        before the keeper has come to it. SIGTTOU has to be blocked or ignored."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                if os.tcgetpgrp(self._fd) == self._group:
                    os.tcsetpgrp(self._fd, rank)

    def take_back(self) -> None:
        """Put the keeper's own group in the foreground."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(self._fd, self._group)

    def close(self) -> None:
        """In the rank, which has no more to do with it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def stop_with_rank(self, number: int) -> None:
        """The rank was stopped from the keyboard: stop as well, so that the shell has its prompt again."""
        if self._fd >= 0 and number in _KEYS:
            self.take_back()
            os.kill(os.getpid(), signal.SIGSTOP)
