"""How a keeper speaks: lines on the rank's stderr. May never block: whoever should read it may be gone, or
stopped, and the keeper has a job to end.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
from typing import Final

_STDERR: Final = 2


def say(text: str) -> None:
    """Write one line, as far as it goes in one piece, or nothing where it does not go now."""
    line = f"chaoskit: {text.rstrip()}".encode(errors="replace")[: select.PIPE_BUF - 1] + b"\n"
    with contextlib.suppress(OSError, ValueError):  # closed, full
        if select.select([], [_STDERR], [], 0)[1]:
            _write(line)


def _write(line: bytes) -> None:
    """Others write to the same pipe and may have filled it since: write through a description of one's own
    that does not block. The usual one is shared with the rank and stays as it is."""
    if stat.S_ISFIFO(os.fstat(_STDERR).st_mode):
        with contextlib.suppress(FileNotFoundError, PermissionError):  # no /proc; another user's pipe
            own = os.open(f"/proc/self/fd/{_STDERR}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(own, line)
            finally:
                os.close(own)
            return
    os.write(_STDERR, line)
