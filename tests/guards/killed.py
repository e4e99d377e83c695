"""Runs a function in a forked process and kills that at an exact system call, or at an exact byte."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
from collections.abc import Callable

SUPPORTED = platform.system() == "Linux" and platform.machine() == "x86_64"

# What changes a file or a folder, by its number on x86_64.
_CHANGES = {
    1: "write", 2: "open", 3: "close", 18: "pwrite64", 20: "writev", 74: "fsync", 75: "fdatasync",
    77: "ftruncate", 82: "rename", 87: "unlink", 91: "fchmod", 257: "openat", 263: "unlinkat",
    264: "renameat", 316: "renameat2",
}  # fmt: skip
_TRACEME, _PEEKUSER, _SYSCALL, _SETOPTIONS = 0, 3, 24, 0x4200
_SYSGOOD, _EXITKILL = 1, 0x100000
_ORIG_RAX = 15 * 8

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def at_change(act: Callable[[], object], number: int) -> str | None:
    """Kill the process that runs ``act`` right before its change ``number`` (from 1) of a file or folder.

    Returns which call that was; None where the process made fewer and ended by itself, with exit code 0.
    """
    child = os.fork()
    if child == 0:
        _libc.ptrace(_TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        _run(act)
    os.waitpid(child, 0)
    if _libc.ptrace(_SETOPTIONS, child, None, _SYSGOOD | _EXITKILL):
        raise OSError(ctypes.get_errno(), "ptrace")
    entering, made, pending = False, 0, 0
    while True:
        _libc.ptrace(_SYSCALL, child, None, pending)
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            assert status == 0, f"ended with {os.waitstatus_to_exitcode(status)}"
            return None
        stopped_by = os.WSTOPSIG(status)
        pending = 0 if stopped_by == signal.SIGTRAP | 0x80 else stopped_by
        if pending:
            continue
        entering = not entering
        call = _CHANGES.get(_libc.ptrace(_PEEKUSER, child, _ORIG_RAX, None))
        made += entering and call is not None
        if made == number:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return call


def at_byte(act: Callable[[], object], size: int) -> bool:
    """Let the kernel kill the process that runs ``act`` when a file of its would grow beyond ``size`` bytes,
    in the middle of a write if it falls there. False where none did."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        _run(act)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGXFSZ), code
    return code != 0


def _run(act: Callable[[], object]) -> None:
    code = 1
    try:
        act()
        code = 0
    finally:
        os._exit(code)
