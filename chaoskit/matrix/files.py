"""Opens the files of a matrix's folder: regular ones only, so that nothing in it is waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from chaoskit import private

_NOT_REGULAR = "not a regular file"


def opener(path: str, flags: int) -> int:
    """For ``open(..., opener=files.opener)``: as private.opener. Raises OSError for a pipe or a device."""
    try:
        # O_NONBLOCK: opening a FIFO must not wait for its other end.
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, private.FILE_MODE)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a FIFO that nobody reads, a socket
            raise OSError(errno.EINVAL, _NOT_REGULAR, path) from None
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, _NOT_REGULAR, path)


def read(path: Path) -> bytes:
    """Return what is in a regular file. Raises OSError."""
    with open(path, "rb", opener=opener) as file:
        return file.read()
