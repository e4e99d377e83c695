"""Fires when a file whose path matches a pattern has got its first byte.

Two ways see it. The kernel (inotify) tells of every writer, in Python or native, of this rank or of another
process, once its first call of ``write`` has returned: what waits for it fires some milliseconds later, or,
where native code of this rank holds the GIL while it writes, when that lets go. ``torch.save`` to a path
would be such a case, and is served exactly: the file is written through a Python stream, as torch itself
does for names that are not ASCII, and the fault fires between the first byte and the second.

Measured, a kill on a machine seven times overloaded: ``torch.save`` to a path leaves 1 byte; to a
stream, and DCP, what the first call of ``write`` wrote (0.7 KiB; once in ten 4 MiB of 64); a loop of 64 KiB
writes, 1 or 2 of them. A file of a MiB that Python or a child process writes may be complete.

Folders are followed, symbolic links to folders below them are not; of files in a folder that is made and
removed at once some are missed.

May not change what is written (that one file, if the fault lets it live, has the neutral folder name
``archive`` inside).
"""

from __future__ import annotations

import ctypes
import fnmatch
import glob
import io
import os
import re
import struct
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch

from chaoskit.guards.atomic_file import final_name
from chaoskit.model import SCRATCH
from chaoskit.rank.program import SCRATCH_VARIABLE
from chaoskit.rank.triggers import MainThread, Shot

FOLDERS_MAX: Final = 4096
"""Folders that are watched below one base; those nearest to it come first."""
_MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x8, 0x40, 0x80
_CREATE, _DELETE, _IGNORED, _ONLYDIR, _IS_DIR = 0x100, 0x200, 0x8000, 0x0100_0000, 0x4000_0000
_MASK: Final = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR
_CLOEXEC: Final = os.O_CLOEXEC
_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 64 * 1024
_MAGIC: Final = frozenset("*?[")
_SKIPPED: Final = ("__pycache__", "node_modules", "site-packages")
_RUN: Final = re.compile(r"\d{8}-\d{6}-\d+(\.\d+)?")
"""The folder of a run, which has a run.json: what other arms write there is none of this one's files."""


def watch(shots: Iterable[Shot], main: MainThread) -> None:
    """Look out for the writes. A relative pattern is seen from the current folder and from the arm's own."""
    waiting = [_Waiting(shot, patterns(shot.when.path)) for shot in shots]
    seen = _Seen(waiting, main)
    _FirstByte.seen = seen
    _serve_torch_save(seen)
    _Folders(seen).start()


def patterns(text: str) -> tuple[str, ...]:
    """Return the absolute patterns that ``text`` stands for."""
    scratch = os.environ.get(SCRATCH_VARIABLE, "")
    if SCRATCH in text:
        text = text.replace(SCRATCH, glob.escape(scratch))
    bases = [glob.escape(base) for base in (scratch, os.getcwd()) if base]
    return tuple(dict.fromkeys(os.path.normpath(os.path.join(base, text)) for base in bases))


class _Waiting:
    def __init__(self, shot: Shot, patterns: tuple[str, ...]) -> None:
        self.shot = shot
        self.patterns = patterns

    def matches(self, path: str) -> bool:
        path = final_name(path)  # under the checkpoint guard a file gets its name once it is whole
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self.patterns)

    def is_next(self, path: str) -> bool:
        """Return whether it fires if ``path`` is the next file."""
        count, nth = self.shot.count + 1, self.shot.when.nth
        return self.matches(path) and (count >= nth if self.shot.fault.repeats else count == nth)


class _Seen:
    """Which files are being written, so that the first byte of each is told once, by whichever way."""

    def __init__(self, waiting: list[_Waiting], main: MainThread) -> None:
        self.waiting = waiting
        self._main = main
        self._writing: set[str] = set()
        self._exactly: set[str] = set()  # written through a stream of ours: the kernel need not tell
        self._lock = threading.Lock()

    def matches(self, path: str) -> bool:
        return any(one.matches(path) for one in self.waiting)

    def takes_over(self, path: str) -> bool:
        """The kernel need not tell of ``path`` any more. Return whether its first byte makes one fire."""
        with self._lock:
            self._exactly.add(path)
        return any(one.is_next(path) for one in self.waiting)

    def first_byte(self, path: str, exactly: bool = False) -> None:
        with self._lock:
            if not exactly and (path in self._exactly or path in self._writing):
                return
            self._writing.add(path)
        for one in self.waiting:
            if one.matches(path) and one.shot.due():
                self._main.fire(one.shot)

    def ended(self, path: str) -> None:
        """What is written there from now on is written anew."""
        with self._lock:
            self._writing.discard(path)


# ---------------------------------------------------------------- torch.save, exactly


class _FirstByte(io.FileIO):
    """A file that tells of its first byte before it writes the second."""

    seen: _Seen

    def __init__(self, path: str, told_as: str) -> None:
        super().__init__(path, "w")
        self._told_as = told_as
        self._begun = False

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        done = 0
        if not self._begun and len(view):
            self._begun = True
            done = super().write(view[:1]) or 0
            self.seen.first_byte(self._told_as, exactly=True)
        while done < len(view):  # the kernel takes 2 GiB at a time
            done += super().write(view[done:]) or 0
        return done


def _serve_torch_save(seen: _Seen) -> None:
    native: Any = torch.serialization._open_zipfile_writer_file
    settings = torch.serialization

    class Exact(native):  # type: ignore[misc]
        """Torch's own writer, through a Python stream where a trigger waits for the file."""

        def __init__(self, name: str) -> None:
            path = os.path.abspath(name)
            if not seen.matches(path):
                super().__init__(name)
                return
            if not seen.takes_over(path):  # counted, and written as ever
                super().__init__(name)
                seen.first_byte(path, exactly=True)
                return
            self.name = name
            self.file_stream = _FirstByte(name, path)
            writer = torch._C.PyTorchFileWriter(
                self.file_stream, settings.get_crc32_options(), settings._get_storage_alignment()
            )
            settings._opener.__init__(self, writer)

    torch.serialization._open_zipfile_writer_file = Exact  # type: ignore[misc]


# ---------------------------------------------------------------- everybody, by the kernel


class _Folders:
    """Watches the folders in which a matching file may appear, those that come later included.

    A pattern is followed from its last folder that is named plainly. Hidden folders, those of installed
    packages and those of runs are left out unless the pattern names them, and so is what exceeds
    :data:`FOLDERS_MAX`.
    """

    def __init__(self, seen: _Seen) -> None:
        self._seen = seen
        self._bases = list(dict.fromkeys(_base(p) for one in seen.waiting for p in one.patterns))
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(_CLOEXEC)
        self._paths: dict[int, str] = {}
        self._counts: Counter[str] = Counter()  # of the folders below each base
        self._told: set[int] = set()  # renames whose file was told under its old name

    def start(self) -> None:
        if self._fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"inotify: {os.strerror(number)}")
        for base in self._bases:
            # Nothing is there yet: its folders are followed as they come.
            folder = base
            while not os.path.isdir(folder):
                folder = os.path.dirname(folder)
            self._add(folder, existing=False)
        threading.Thread(target=self._follow, name="chaoskit writes", daemon=True).start()

    def _wanted(self, folder: str) -> bool:
        """On the way to a base, or below one."""
        below = any(base == "/" or folder == base or folder.startswith(base + "/") for base in self._bases)
        return below or any(base.startswith(folder.rstrip("/") + "/") for base in self._bases)

    def _add(self, folder: str, existing: bool) -> None:
        """Watch ``folder`` and what is in it. ``existing``: it came just now, and files in it are new."""
        waiting = deque([folder])
        while waiting:
            path = waiting.popleft()
            base = self._base_of(path)
            if self._counts[base] >= FOLDERS_MAX:
                continue
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(path), _MASK)
            if number < 0:
                continue
            self._counts[base] += number not in self._paths
            self._paths[number] = path
            for entry in _entries(path):
                if entry.is_dir(follow_symlinks=False):
                    if self._wanted(entry.path) and not self._left_out(entry.path):
                        waiting.append(entry.path)
                elif existing:
                    self._written(entry.path)

    def _left_out(self, folder: str) -> bool:
        if _is_run(folder):
            return folder not in self._bases  # the arm's own folder in it is a base
        name = os.path.basename(folder)
        out = name.startswith(".") or name in _SKIPPED
        return out and not any(b == folder or b.startswith(folder + "/") for b in self._bases)

    def _of_other_run(self, path: str) -> bool:
        """Asked of each file: a run that has just begun has no run.json yet when its folder is seen."""
        base = self._base_of(os.path.dirname(path))
        above = os.path.dirname(path)
        while len(above) > len(base) and above != "/":
            if _is_run(above):
                return True
            above = os.path.dirname(above)
        return False

    def _base_of(self, folder: str) -> str:
        """The nearest base that it lies in; empty on the way to one."""
        around = [b for b in self._bases if f"{folder}/".startswith(f"{b.rstrip('/')}/")]
        return max(around, key=len, default="")

    def _follow(self) -> None:
        while True:
            try:
                self._take(os.read(self._fd, _READ_BYTES))
            except OSError:  # the script has closed all descriptors
                return

    def _take(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            number, mask, cookie, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
            at += length
            if mask & _IGNORED and (gone := self._paths.pop(number, None)):
                self._counts[self._base_of(gone)] -= 1
            elif number in self._paths and name:
                self._happened(os.path.join(self._paths[number], name), mask, cookie)

    def _happened(self, path: str, mask: int, cookie: int) -> None:
        if mask & _IS_DIR:
            if mask & (_CREATE | _MOVED_TO) and self._wanted(path) and not self._left_out(path):
                self._add(path, existing=True)
        elif mask & _MODIFY:
            self._written(path)
        elif mask & _MOVED_TO:
            if cookie in self._told:
                self._told.discard(cookie)
            else:
                self._written(path)
                self._seen.ended(path)
        elif mask & (_CLOSE_WRITE | _DELETE):
            self._seen.ended(path)
        elif mask & _MOVED_FROM:
            self._seen.ended(path)
            if self._seen.matches(path):
                self._told.add(cookie)

    def _written(self, path: str) -> None:
        """Also told of a file that was only emptied, which is no byte."""
        if self._seen.matches(path) and not self._of_other_run(path):
            try:
                empty = os.stat(path).st_size == 0
            except OSError:  # gone again
                empty = False
            if not empty:
                self._seen.first_byte(path)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def _is_run(folder: str) -> bool:
    return bool(_RUN.fullmatch(os.path.basename(folder))) and os.path.isfile(f"{folder}/run.json")


def _base(pattern: str) -> str:
    """Return the last folder of ``pattern`` that is named plainly."""
    folder = os.path.dirname(pattern)
    while _MAGIC & set(folder):
        folder = os.path.dirname(folder)
    return folder or "/"
