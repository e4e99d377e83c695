"""What was found out about a rank at the deadline, as values, and the files in ``rank<N>/`` that hold them.

One file for each source, and ``evidence.json``, which says what could not be had and why. The reader
believes nothing: whatever the files hold gives fewer findings, never an exception. A rank that had ended by
the deadline has no such files; its findings are its last output.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from chaoskit import private

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

STACK_FILE: Final = "stack.json"
PROCESS_FILE: Final = "process.json"
SOCKETS_FILE: Final = "sockets.json"
RECORDER_FILE: Final = "flight_recorder.json"
SUMMARY_FILE: Final = "evidence.json"
LAST_LINES: Final = 20
"""So many lines of each stream are kept of the last output."""
_LINE_CHARS: Final = 500
_TAIL_BYTES: Final = 32 * 1024
_FILE_BYTES: Final = 8 << 20
_TEXT_CHARS: Final = 1000
_THREADS: Final = 256
_FRAMES: Final = 256
_SOCKETS: Final = 4096
_MISSING: Final = 64

What = Literal["store", "peer", ""]


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """One thread. ``frames``: innermost first, ``function (file:line)``, native ones ``function (library)``.

    ``waits_in`` is the function of the kernel in which it waits, "" where that is not known or it runs.
    """

    name: str = ""
    thread_id: int = 0
    main: bool = False
    frames: tuple[str, ...] = ()
    waits_in: str = ""
    holds_gil: bool = False


@dataclass(frozen=True, slots=True)
class Stacks:
    """What stack.json holds. ``by`` is who read it; ``frames`` and ``line`` are Python's, of the main
    thread. ``state`` is the process's, as in /proc/PID/stat."""

    by: str = ""
    state: str = ""
    line: str = ""
    frames: tuple[str, ...] = ()
    threads: tuple[ThreadStack, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadState:
    """One thread as /proc shows it: more than Python knows. ``state`` as in /proc/PID/stat."""

    thread_id: int = 0
    name: str = ""
    state: str = ""
    waits_in: str = ""


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """The process as /proc shows it. -1: not known. Signals are given by name."""

    state: str = ""
    rss_bytes: int = -1
    peak_rss_bytes: int = -1
    thread_count: int = -1
    voluntary_switches: int = -1  # of all threads that are listed
    involuntary_switches: int = -1
    pending: tuple[str, ...] = ()  # came, and are not taken
    blocked: tuple[str, ...] = ()  # by the main thread
    ignored: tuple[str, ...] = ()
    caught: tuple[str, ...] = ()
    threads: tuple[ThreadState, ...] = ()


@dataclass(frozen=True, slots=True)
class Socket:
    """One TCP socket. ``send_queue``: bytes that the other side's kernel has not acknowledged;
    ``receive_queue``: bytes that this rank has not read. ``peer`` is the slot at the other side, where that
    is a rank that lived."""

    local: str = ""
    remote: str = ""
    state: str = ""
    send_queue: int = 0
    receive_queue: int = 0
    peer: int | None = None
    what: What = ""


@dataclass(frozen=True, slots=True)
class Sockets:
    """What sockets.json holds; ``left_out``: so many more there were."""

    sockets: tuple[Socket, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """What evidence.json holds: what is missing, and how long each source took."""

    missing: tuple[str, ...] = ()
    took_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RankFindings:
    """All that was found out about one rank. ``missing``: what could not be had, and why."""

    slot: int
    state: str = ""
    threads: tuple[ThreadStack, ...] = ()  # of Python; the main thread first
    stacks_by: str = ""  # "py-spy", "faulthandler", "" where there are none
    missing: tuple[str, ...] = ()
    sockets: tuple[Socket, ...] = ()
    last_output: tuple[str, ...] = ()  # "stdout: line", then "stderr: line"
    flight_recorder: str = ""  # the path of torch's own file
    process: ProcessStatus = ProcessStatus()

    @property
    def main(self) -> ThreadStack | None:
        """The main thread's stack, if there is one."""
        return next((t for t in self.threads if t.main), None)


# ---------------------------------------------------------------- write


def write(path: Path, found: DataclassInstance) -> None:
    """Write one of these values into its file. Raises OSError."""
    path.parent.mkdir(exist_ok=True, mode=private.FOLDER_MODE)
    private.write(path, json.dumps(found, default=_fields_of) + "\n")


def _fields_of(value: DataclassInstance) -> dict[str, object]:
    # 64 ranks have thousands of sockets: asdict() copies, and an indent has no encoder in C.
    return {field.name: getattr(value, field.name) for field in fields(value)}


# ---------------------------------------------------------------- read


def read(rank_dir: Path) -> RankFindings:
    """Return what is known of the rank whose folder this is (``rank<N>``). Never raises for content."""
    number = rank_dir.name.removeprefix("rank")
    slot = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else -1
    missing = _texts(_field(_load(rank_dir / SUMMARY_FILE), "missing"), _MISSING)
    process = _process(_load(rank_dir / PROCESS_FILE))
    stack = _load(rank_dir / STACK_FILE)
    waits = {t.thread_id: t.waits_in for t in process.threads}
    threads = tuple(_thread(t, waits) for t in _list(_field(stack, "threads"), _THREADS))
    recorder = rank_dir / RECORDER_FILE
    return RankFindings(
        slot=slot,
        state=process.state,
        threads=tuple(sorted(threads, key=lambda t: not t.main)),
        stacks_by=_text(_field(stack, "by")),
        missing=missing,
        sockets=_sockets(_load(rank_dir / SOCKETS_FILE)),
        last_output=_last_output(rank_dir),
        flight_recorder=str(recorder) if _is_file(recorder) else "",
        process=process,
    )


def read_all(arm_dir: Path) -> tuple[RankFindings, ...]:
    """Return the findings of every rank that has a folder in ``arm_dir``, by slot."""
    try:
        folders = [p for p in arm_dir.iterdir() if p.name.startswith("rank") and p.is_dir()]
    except OSError:
        return ()
    found = [read(folder) for folder in folders]
    return tuple(sorted((f for f in found if f.slot >= 0), key=lambda f: f.slot))


def _thread(value: object, waits: Mapping[int, str]) -> ThreadStack:
    number = _number(_field(value, "thread_id"), 0)
    return ThreadStack(
        name=_text(_field(value, "name")),
        thread_id=number,
        main=_field(value, "main") is True,
        frames=_texts(_field(value, "frames"), _FRAMES),
        waits_in=_text(_field(value, "waits_in")) or waits.get(number, ""),
        holds_gil=_field(value, "holds_gil") is True,
    )


def _process(value: object) -> ProcessStatus:
    threads = tuple(
        ThreadState(
            _number(_field(t, "thread_id"), 0),
            _text(_field(t, "name")),
            _text(_field(t, "state")),
            _text(_field(t, "waits_in")),
        )
        for t in _list(_field(value, "threads"), _THREADS)
    )
    return ProcessStatus(
        state=_text(_field(value, "state")),
        rss_bytes=_number(_field(value, "rss_bytes")),
        peak_rss_bytes=_number(_field(value, "peak_rss_bytes")),
        thread_count=_number(_field(value, "thread_count")),
        voluntary_switches=_number(_field(value, "voluntary_switches")),
        involuntary_switches=_number(_field(value, "involuntary_switches")),
        pending=_texts(_field(value, "pending"), 64),
        blocked=_texts(_field(value, "blocked"), 64),
        ignored=_texts(_field(value, "ignored"), 64),
        caught=_texts(_field(value, "caught"), 64),
        threads=threads,
    )


def _sockets(value: object) -> tuple[Socket, ...]:
    return tuple(_socket(s) for s in _list(_field(value, "sockets"), _SOCKETS))


def _socket(value: object) -> Socket:
    peer, what = _field(value, "peer"), _field(value, "what")
    return Socket(
        local=_text(_field(value, "local")),
        remote=_text(_field(value, "remote")),
        state=_text(_field(value, "state")),
        send_queue=_number(_field(value, "send_queue"), 0),
        receive_queue=_number(_field(value, "receive_queue"), 0),
        peer=_number(peer) if _number(peer) >= 0 else None,
        what=what if what in ("store", "peer") else "",
    )


def _last_output(rank_dir: Path) -> tuple[str, ...]:
    found: list[str] = []
    for stream in ("stdout", "stderr"):
        text = _bytes(rank_dir / f"{stream}.log", tail=_TAIL_BYTES).decode(errors="replace")
        lines = [line[:_LINE_CHARS] for line in text.splitlines() if line.strip()]
        found += [f"{stream}: {line}" for line in lines[-LAST_LINES:]]
    return tuple(found)


# ---------------------------------------------------------------- what may hold anything


def _load(path: Path) -> object:
    body = _bytes(path)
    try:
        return json.loads(body) if body else None
    except (ValueError, RecursionError):
        return None


def _bytes(path: Path, tail: int = 0) -> bytes:
    """Return what is in the file: b"" where it is too large or no regular file; ``tail``: only its end."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return b""
    try:
        look = os.fstat(fd)
        if not stat.S_ISREG(look.st_mode) or (not tail and look.st_size > _FILE_BYTES):
            return b""
        return os.pread(fd, tail or _FILE_BYTES, max(0, look.st_size - tail) if tail else 0)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _list(value: object, limit: int) -> list[object]:
    return value[:limit] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value[:_TEXT_CHARS] if isinstance(value, str) else ""


def _texts(value: object, limit: int) -> tuple[str, ...]:
    return tuple(v[:_TEXT_CHARS] for v in _list(value, limit) if isinstance(v, str))


def _number(value: object, otherwise: int = -1) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
