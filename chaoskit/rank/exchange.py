"""The words through which a supervisor asks a rank for evidence, and the rank answers.

They lie in the header page of the rank's region, so they need no descriptor in the rank, survive a script
that closes all of them, and are there under any launcher on this machine. Waiting is a futex: it costs
nothing. Either side may write anything; the other believes no value. Standard library only.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import mmap
import os
import platform
from typing import Final, Self

from chaoskit.rank import region

_WORDS: Final = 64
_FUTEX_CALL: Final = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
"""The number of futex(2), which glibc has no function for. None: no rank here is ever asked."""
_FUTEX_WAIT: Final = 0
_FUTEX_WAKE: Final = 1
_EVERYONE: Final = 0x7FFF_FFFF
_PROT_READ_WRITE: Final = 3
_MAP_SHARED: Final = 1
_MAP_FAILED: Final = ctypes.c_void_p(-1).value
_GOES_ON: Final = (errno.EINTR, errno.EAGAIN)

_libc: Final = ctypes.CDLL(None, use_errno=True)  # gives up the GIL during a call
_map: Final = _libc.mmap
_map.restype = ctypes.c_void_p
_map.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip
_Words = ctypes.c_uint32 * _WORDS


class Answer(enum.IntEnum):
    """How far the rank is with what it was asked for."""

    NOBODY = 0  # nobody there listens
    LISTENS = 1
    AT_IT = 2
    WRITTEN = 3
    NOTHING = 4  # there is nothing to write: no process group yet
    FAILED = 5


class _At(enum.IntEnum):
    ASKED = 0
    ANSWER = 1
    STACKS_FD = 2  # the descriptor that faulthandler writes to, plus 1
    MAIN_LOW = 3  # pthread_self() of the main thread, as faulthandler prints it
    MAIN_HIGH = 4


class Exchange:
    """Those of one rank. It owns its memory: nothing has to be closed."""

    def __init__(self, words: ctypes.Array[ctypes.c_uint32]) -> None:
        self._words = words

    @classmethod
    def of_rank(cls, memfd: int, number: int) -> Self:
        """Map the words of region ``number`` for good, without keeping a descriptor. Raises OSError."""
        offset = number * region.REGION_BYTES
        if os.fstat(memfd).st_size < offset + region.HEADER_BYTES:
            raise OSError(errno.EINVAL, "there is no such region")
        at = _map(None, region.HEADER_BYTES, _PROT_READ_WRITE, _MAP_SHARED, memfd, offset)
        if at in (None, _MAP_FAILED):
            raise OSError(ctypes.get_errno(), "mmap")
        return cls(_Words.from_address(at + region.EXCHANGE_AT))

    @classmethod
    def of_supervisor(cls, memfd: int, number: int) -> Self:
        """Map the words of region ``number``, until this object is gone. Raises OSError or ValueError."""
        page = mmap.mmap(memfd, region.HEADER_BYTES, offset=number * region.REGION_BYTES)
        return cls(_Words.from_buffer(page, region.EXCHANGE_AT))

    # ------------------------------------------------------------ the supervisor's side

    def ask(self) -> None:
        """Ask for what the rank can tell. Never blocks."""
        self._words[_At.ASKED] = 1
        self._futex(_FUTEX_WAKE, _EVERYONE)

    @property
    def answer(self) -> int:
        """One of :class:`Answer`, or whatever the rank has written there."""
        return self._words[_At.ANSWER]

    @property
    def stacks_fd(self) -> int:
        """The descriptor to which the rank's faulthandler writes; -1: it has none."""
        return self._words[_At.STACKS_FD] - 1

    @property
    def main_thread(self) -> int:
        """The main thread, by the number that faulthandler gives to it."""
        return self._words[_At.MAIN_HIGH] << 32 | self._words[_At.MAIN_LOW]

    # ------------------------------------------------------------ the rank's side

    def wait(self) -> bool:
        """Return True once it is asked; False where that cannot be waited for. Without the GIL."""
        while not self._words[_At.ASKED]:
            if self._futex(_FUTEX_WAIT, 0) and ctypes.get_errno() not in _GOES_ON:
                return False
        return True

    def say(self, answer: Answer) -> None:
        """Tell how far it is."""
        self._words[_At.ANSWER] = answer

    def tell_stacks(self, fd: int, main_thread: int) -> None:
        """Tell where faulthandler writes."""
        self._words[_At.MAIN_LOW] = main_thread & 0xFFFF_FFFF
        self._words[_At.MAIN_HIGH] = main_thread >> 32 & 0xFFFF_FFFF
        self._words[_At.STACKS_FD] = fd + 1

    def _futex(self, operation: int, value: int) -> int:
        if _FUTEX_CALL is None:
            ctypes.set_errno(errno.ENOSYS)
            return -1
        at = ctypes.c_void_p(ctypes.addressof(self._words))
        arguments = (at, ctypes.c_int(operation), ctypes.c_uint32(value), None, None, ctypes.c_uint32(0))
        found: int = _libc.syscall(ctypes.c_long(_FUTEX_CALL), *arguments)
        return found
