"""Keeps the checksum of each replicated parameter of this rank in a file, to say later which one differs.

Appended by single writes, so that what was written survives SIGKILL. When the file is half full only every
second update is kept, when half of the rest is, every fourth, and so on: the same ones on all ranks. Never an
exception into the script: where the file cannot be had, nothing is kept.
"""

from __future__ import annotations

import contextlib
import os
import struct
from itertools import count
from typing import Final

from chaoskit.intercept.replicated import Replica
from chaoskit.parameter_sums import BLOCK_BYTES, FILE, LIMIT_BYTES, MAGIC, moment_block, names_block

_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class ParameterFile:
    """That of one rank in ``folder``; "" keeps nothing. Opened once there is something to keep."""

    def __init__(self, folder: str = "", limit: int = LIMIT_BYTES) -> None:
        self._path = os.path.join(folder, FILE) if folder else ""
        with contextlib.suppress(OSError):  # what an earlier attempt left is not this one's
            os.unlink(self._path)
        self._limit = limit
        self._fd = -1
        self._file: tuple[int, int] | None = None
        self._used = 0
        self._names: dict[int, tuple[tuple[str, ...], int]] = {}  # by ordinal: the names and their number
        self._numbers = count()

    def add(self, replica: Replica, t_ns: int, final: bool) -> None:
        """Keep what the rank holds now, if this update is one of those that are kept."""
        if not self._path or not (final or replica.step % self._stride() == 0):
            return
        known = self._names.get(replica.ordinal)
        names = b""
        if known is None or (known[0] is not replica.names and known[0] != replica.names):
            known = (replica.names, next(self._numbers))
            names = names_block(known[1], replica.names)
        try:
            moment = moment_block(
                known[1], t_ns, replica.step, replica.ordinal, final, replica.checksum, replica.numbers
            )
        except struct.error:
            return
        room = self._limit - self._used + (BLOCK_BYTES if final else 0)
        if len(moment) <= BLOCK_BYTES and len(names) + len(moment) <= room:
            self._names[replica.ordinal] = known
            self._write(names + moment)

    def _stride(self) -> int:
        """Each how many updates are kept: twice as many whenever half of what was left is full."""
        return 1 << (self._limit // max(1, self._limit - self._used)).bit_length() - 1

    def _write(self, blocks: bytes) -> None:
        """Append ``blocks``; what cannot be written whole ends the file."""
        try:
            if self._fd < 0:
                self._open()
            closed = _identity(self._fd) != self._file  # by the script, and the number perhaps used again
            if closed or os.write(self._fd, blocks) != len(blocks):
                self._path = ""
        except OSError:
            self._path = ""
        self._used += len(blocks)

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._fd = os.open(self._path, _OPEN, 0o600)
        self._file = _identity(self._fd)
        os.write(self._fd, MAGIC)


def _identity(fd: int) -> tuple[int, int]:
    stat = os.fstat(fd)
    return (stat.st_dev, stat.st_ino)
