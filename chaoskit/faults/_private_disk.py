"""A small disk in memory that one process and what it starts see in the place of a folder, and nobody else.

It is a tmpfs, mounted in a mount namespace of the process's own, and gone with its last process. Linux only,
through ctypes, as Python 3.11 has no names for these calls.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

_CLONE_NEWNS: Final = 0x20000
_CLONE_NEWUSER: Final = 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_REMOUNT = 0x2, 0x4, 0x20
_MS_PRIVATE_FOR_ALL: Final = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE
_FLAGS: Final = _MS_NOSUID | _MS_NODEV

_libc: Final = ctypes.CDLL(None, use_errno=True)


def mount_over(folder: str) -> None:
    """Put an empty disk over ``folder`` for this thread and all that it starts from now on. Raises OSError.

    Without the privilege a user namespace is made with it, which needs a single thread: call it early.
    """
    _own_mounts()
    _mount("tmpfs", folder, "tmpfs", _FLAGS, "mode=1777")


def leave_free(folder: str, free: int) -> None:
    """Shrink the disk over ``folder`` to what is used and ``free`` bytes more, in whole pages."""
    stat = os.statvfs(folder)
    used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize
    size = max(used + free, stat.f_frsize)  # tmpfs takes 0 for "no limit"
    _mount("tmpfs", folder, "tmpfs", _FLAGS | _MS_REMOUNT, f"size={size}")


def try_out() -> None:
    """Do all of it in this process, which it changes. Raises OSError."""
    mount_over("/tmp")  # noqa: S108 - a folder that is there; only this process sees the disk
    leave_free("/tmp", 0)  # noqa: S108


def _own_mounts() -> None:
    uid, gid = os.geteuid(), os.getegid()
    try:
        _unshare(_CLONE_NEWNS)
    except PermissionError:
        _unshare(_CLONE_NEWUSER | _CLONE_NEWNS)
        maps = (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1"))
        for file, text in maps:
            with open(f"/proc/self/{file}", "w", encoding="ascii") as out:
                out.write(text)
    _mount(None, "/", None, _MS_PRIVATE_FOR_ALL, None)  # or the mount would appear outside


def _unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        raise _error("unshare")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind, data)]
    if _libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]) != 0:
        raise _error(f"mount {target}")


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
