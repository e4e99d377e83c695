"""Writes a file so that under its name there is always the old content or the new, whole.

A temporary file in the same folder takes the place of the old one once it is complete and on disk. May not
know what is written. Nothing is claimed for a power loss: what a disk's own cache does is not ours.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from itertools import count

_NAME = re.compile(
    r"(?P<stem>.*)\.chaoskit-tmp-(?P<host>[0-9a-f]{8})-\d+-\d+(?:-(?P<suffix>[^./]+))?", re.DOTALL
)
_ABANDONED_S = 24 * 3600.0
"""After this time without a write, a temporary file of another host is left over."""

_NO_NEW_FILE_HERE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
)
"""Writing to the file itself may do where a new one is refused so, or says better what is wrong. Not where
the disk is full: that would destroy the old content."""

_counter = count(1)
_cleaned: set[str] = set()


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Give the path to write to; at the end what was written there takes the place of ``path``.

    On an error nothing of it is left, and the old file is as it was. The permissions of the old file are
    kept, and a symbolic link stays one. What cannot be replaced (a device, a pipe, a folder that takes no
    new file) is given as it is. Leftovers of processes that were killed are removed once for each folder.
    """
    target = os.path.realpath(path)
    temporary = _create(target)
    if temporary is None:
        yield path
        return
    name, fd = temporary
    try:
        yield name
        os.fsync(fd)
        os.replace(name, target)
        _sync_folder(os.path.dirname(target))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    finally:
        os.close(fd)


def temporary_name(target: str) -> str:
    """Return a name beside ``target``. It differs after the last dot only, because torch writes what
    comes before into the file: a checkpoint stays the same to the byte."""
    stem, suffix = os.path.splitext(target)
    made = f"{stem}.chaoskit-tmp-{_host()}-{os.getpid()}-{next(_counter)}"
    return f"{made}-{suffix[1:]}" if suffix[1:] else made


def final_name(path: str) -> str:
    """Return what ``path`` will be called once it is whole; ``path`` itself where it is no temporary file."""
    match = _NAME.fullmatch(path)
    if match is None:
        return path
    return match["stem"] + (f".{match['suffix']}" if match["suffix"] else "")


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one of ours, unfinished."""
    return _NAME.fullmatch(name) is not None


def clean(folder: str) -> list[str]:
    """Remove what killed processes left in ``folder``, and return it. What is still being written stays."""
    removed = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _is_left_over(entry):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
                    removed.append(entry.path)
    return removed


def _create(target: str) -> tuple[str, int] | None:
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(os.stat(target).st_mode) or not os.access(target, os.W_OK):
            return None
    folder = os.path.dirname(target)
    if folder not in _cleaned:
        _cleaned.add(folder)
        clean(folder)
    name = temporary_name(target)
    try:
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in _NO_NEW_FILE_HERE:
            return None
        raise
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held as long as this process lives: see clean()
    with contextlib.suppress(OSError):
        os.fchmod(fd, stat.S_IMODE(os.stat(target).st_mode))
    return name, fd


def _is_left_over(entry: os.DirEntry[str]) -> bool:
    match = _NAME.fullmatch(entry.name)
    if match is None:
        return False
    try:
        if match["host"] != _host():  # a lock may not be seen from another host
            return time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_S
        fd = os.open(entry.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def _sync_folder(folder: str) -> None:
    with contextlib.suppress(OSError):  # some file systems know no sync of a folder
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _host() -> str:
    """This boot of this kernel: processes that share it see one another's locks, in any container."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read()
    except OSError:
        boot = os.uname().nodename
    return hashlib.blake2b(boot.encode(), digest_size=4).hexdigest()
