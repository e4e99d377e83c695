"""Keeps finished cells in a file as they end, so that an interrupted matrix can go on.

One line a repeat: a checksum, a key and the record. A line that does not check is counted and its cell is run
again. Only what was decided is kept: an arm that passed or failed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Self

from chaoskit import codec
from chaoskit.errors import ChaoskitError, usage
from chaoskit.matrix import files
from chaoskit.model import Status, Verdict

FILE = "cells.jsonl"
LOCK = "lock"
_SUM_CHARS = 16


@dataclass(frozen=True, slots=True)
class Record:
    """One repeat of one cell. ``folder`` is that of its arm, below the folder of the matrix."""

    verdict: Verdict
    seconds: float
    named_by_job: bool | None
    folder: str


class Kept:
    """The file, open and locked. ``damaged``: lines that could not be read."""

    def __init__(self, file: IO[bytes], lock: IO[bytes], records: dict[str, Record], damaged: int) -> None:
        self._file = file
        self._lock = lock
        self._records = records
        self.damaged = damaged
        self.asked: set[str] = set()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the file of ``folder``, which is made where it is missing. Raises InvalidInput where another
        process has it, or it cannot be had."""
        path = folder / FILE
        try:
            lock = _locked(folder)
            good, records, damaged = _read(path)
            if damaged:  # told once, and what was cut off must not spoil the next line
                _rewrite(path, good)
            file = open(path, "ab", buffering=0, opener=files.opener)  # noqa: SIM115  # kept open
        except OSError as error:
            what = Path(error.filename) if error.filename else path
            raise usage(f"{what} cannot be had: {error.strerror}", "is it yours?") from None
        return cls(file, lock, records, damaged)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._lock.close()

    def get(self, key: str) -> Record | None:
        self.asked.add(key)
        return self._records.get(key)

    @property
    def unasked(self) -> int:
        """How many kept records nobody has asked for: of other conditions."""
        return len(self._records.keys() - self.asked)

    def put(self, key: str, record: Record) -> None:
        """Keep ``record`` if it was decided. Raises ChaoskitError where the file cannot be written."""
        if record.verdict.status not in (Status.PASS, Status.FAIL):
            return
        self._records[key] = record
        self.asked.add(key)
        body = json.dumps({"key": key, **codec.encode(record)}, separators=(",", ":")).encode()
        line = _sum(body) + b" " + body + b"\n"
        try:
            written = self._file.write(line)  # appended at once: a process that is killed leaves whole lines
        except OSError as error:
            raise ChaoskitError(f"{FILE} cannot be written: {error.strerror}") from None
        if written != len(line):
            raise ChaoskitError(f"{FILE} cannot be written: the disk is full")


def _sum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_SUM_CHARS].encode()


def _locked(folder: Path) -> IO[bytes]:
    """Raises OSError where there is no such folder, InvalidInput where another process has the lock."""
    lock = open(folder / LOCK, "ab", opener=files.opener)  # noqa: SIM115  # kept open
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise usage(f"{folder}: another chaoskit is working on this matrix", "wait for its end") from None
    return lock


def _rewrite(path: Path, lines: list[bytes]) -> None:
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb", opener=files.opener) as file:
        file.writelines(line + b"\n" for line in lines)
    temporary.replace(path)


def _read(path: Path) -> tuple[list[bytes], dict[str, Record], int]:
    """Return the good lines, their records, and how many lines are damaged. Raises OSError."""
    raw = files.read(path) if path.exists() else b""
    good: list[bytes] = []
    records: dict[str, Record] = {}
    damaged = int(bool(raw) and not raw.endswith(b"\n"))
    whole = raw[: raw.rfind(b"\n") + 1]
    for line in filter(None, whole.split(b"\n")):
        found = _record(line)
        if found is None:
            damaged += 1
        else:
            good.append(line)
            records[found[0]] = found[1]
    return good, records, damaged


def _record(line: bytes) -> tuple[str, Record] | None:
    told, _, body = line.partition(b" ")
    if told != _sum(body):
        return None
    try:
        raw = json.loads(body)
        key = raw.pop("key")
        record = codec.decode(Record, raw)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return (key, record) if isinstance(key, str) and _is_inside(record.folder) else None


def _is_inside(folder: str) -> bool:
    """Whether it is a folder below that of the matrix, as reports link to it."""
    path = PurePosixPath(folder)
    return not path.is_absolute() and ".." not in path.parts and ":" not in folder.partition("/")[0]
