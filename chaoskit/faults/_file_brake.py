"""Holds up the file operations of one thread, and of what it starts afterwards, in some folder.

The kernel lets a second process decide about each of the thread's system calls that move a file's data
(seccomp user notification, Linux 5.5): it lets all go on, those on files of the folder only after a while, or
never. Nothing is faked, no file system is mounted, no privilege is needed. The thread sees a file system that
is slow or does not answer: it waits in the kernel, where a signal either ends the process or waits as well
(Linux 5.19; before, a handler runs). x86-64 and arm64 only. Through ctypes, as Python has no names for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import heapq
import os
import platform
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass
from typing import Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_SET_MODE_FILTER: Final = 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101  # ioctls of the listener
_NOTICE: Final = struct.Struct("QIIiIQ6Q")  # id, pid, flags, number of the call, architecture, …, arguments
_REPLY: Final = struct.Struct("QqiI")  # id, value, error, flags
_GO_ON: Final = 1
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # of the filter's language (BPF)
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000

# Number of each call, and which of its arguments are descriptors.
_CALLS_X86_64: Final = {
    0: (0,), 1: (0,), 17: (0,), 18: (0,), 19: (0,), 20: (0,),  # read, write; p…64; …v
    295: (0,), 296: (0,), 74: (0,), 75: (0,), 77: (0,),  # preadv, pwritev, fsync, fdatasync, ftruncate
    40: (0, 1), 326: (0, 2),  # sendfile, copy_file_range
}  # fmt: skip
_CALLS_ARM64: Final = {
    63: (0,), 64: (0,), 67: (0,), 68: (0,), 65: (0,), 66: (0,), 69: (0,), 70: (0,), 82: (0,), 83: (0,),
    46: (0,), 71: (0, 1), 285: (0, 2),
}  # fmt: skip
_SYSTEMS: Final = {  # machine: (architecture, number of seccomp(), calls)
    "x86_64": (0xC000003E, 317, _CALLS_X86_64),
    "aarch64": (0xC00000B7, 277, _CALLS_ARM64),
}

_libc: Final = ctypes.CDLL(None, use_errno=True)


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("yes", ctypes.c_ubyte),
        ("no", ctypes.c_ubyte),
        ("k", ctypes.c_uint),
    )


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.POINTER(_Instruction)))


@dataclass(frozen=True, slots=True)
class Brake:
    """A process that waits to be told of the calls. It ends with the thread that made it."""

    _helper: socket.socket

    def engage(self) -> None:
        """From now on, hold up this thread, and what it starts. Raises OSError. There is no way back."""
        listener = _listen()
        try:
            socket.send_fds(self._helper, [b"1"], [listener])
        finally:
            os.close(listener)


def brake(folder: str, hold_s: float | None) -> Brake:
    """Return a brake for files below ``folder``: each call takes ``hold_s`` more, or for good (None).

    Forks, so call it while little else runs in this process.
    """
    mine, its = socket.socketpair()
    parent = os.getpid()
    if os.fork() == 0:
        try:
            _become_helper(parent, its.fileno())
            _serve(its, folder, hold_s)
        finally:
            os._exit(0)
    its.close()
    return Brake(mine)


def try_out() -> None:
    """Ask for a listener in this process, which it changes. Raises OSError."""
    os.close(_listen())


def _listen() -> int:
    """Put the filter on this thread; return the descriptor on which its calls are told."""
    machine = platform.machine()
    if machine not in _SYSTEMS:
        raise OSError(errno.ENOSYS, f"the numbers of {machine}'s system calls are not known here")
    architecture, seccomp, calls = _SYSTEMS[machine]
    program = _program(architecture, list(calls))
    zero = ctypes.c_ulong(0)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero)
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        found: int = _libc.syscall(seccomp, _SET_MODE_FILTER, flags, ctypes.byref(program))
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number != errno.EINVAL:
            break
    raise OSError(number, f"seccomp: {os.strerror(number)}")


def _program(architecture: int, calls: list[int]) -> _Filter:
    """Ask about ``calls``, allow all others."""
    count = len(calls)
    code = [(_LOAD, 0, 0, 4), (_JUMP_IF_EQUAL, 0, count + 1, architecture), (_LOAD, 0, 0, 0)]
    code += [(_JUMP_IF_EQUAL, count - at, 0, call) for at, call in enumerate(calls)]
    code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ASK)]
    return _Filter(len(code), (_Instruction * len(code))(*(_Instruction(*line) for line in code)))


# ---------------------------------------------------------------- in the helper


def _become_helper(parent: int, kept: int) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(0)
    os.setsid()  # what is sent to the rank's process group is not meant for this
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    os.closerange(3, kept)
    os.closerange(kept + 1, max(map(int, os.listdir("/proc/self/fd"))) + 1)


def _serve(told: socket.socket, folder: str, hold_s: float | None) -> NoReturn:
    """Let each call go on, at once or when it is due, until nobody is left who makes any."""
    _, (listener, *_), _, _ = socket.recv_fds(told, 1, 1)
    calls = _SYSTEMS[platform.machine()][2]
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    held: list[tuple[float, int]] = []
    while True:
        wait_ms = max(0.0, held[0][0] - time.monotonic()) * 1000 if held else None
        for _, events in poll.poll(wait_ms):
            if events & select.POLLHUP:
                os._exit(0)
            with contextlib.suppress(OSError):  # who asked is gone
                notice = _receive(listener)
                identity, pid, _, call, *_ = notice
                numbers = [notice[6 + at] & 0xFFFFFFFF for at in calls[call]]
                if not any(_below(pid, number, folder) for number in numbers):
                    _go_on(listener, identity)
                elif hold_s is not None:
                    heapq.heappush(held, (time.monotonic() + hold_s, identity))
        while held and held[0][0] <= time.monotonic():
            _go_on(listener, heapq.heappop(held)[1])


def _receive(listener: int) -> tuple[int, ...]:
    buffer = bytearray(_NOTICE.size)
    fcntl.ioctl(listener, _RECEIVE, buffer)
    return _NOTICE.unpack(buffer)


def _go_on(listener: int, identity: int) -> None:
    with contextlib.suppress(OSError):  # who asked is gone
        fcntl.ioctl(listener, _ANSWER, _REPLY.pack(identity, 0, 0, _GO_ON))


def _below(pid: int, descriptor: int, folder: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}").startswith(folder + "/")
    except OSError:
        return False
