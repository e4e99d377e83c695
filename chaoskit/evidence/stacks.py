"""The Python stacks of a live rank, read from outside with py-spy: also of a stopped one.

Needs ptrace; where that is forbidden the rank's own faulthandler is asked at the deadline, and before that
the result is empty and the judge does without. Bounded in time; a rank's own memory is hostile, so what does
not parse is nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

from chaoskit.evidence import _faulthandler, _program, process
from chaoskit.evidence.family import Report, Scene, Source
from chaoskit.evidence.findings import Stacks, ThreadStack
from chaoskit.rank import answering

TIMEOUT_S = 5.0
DUMP_S = 2.0
"""How long reading one rank may take at the deadline."""
NATIVE_S = 4.0
FRAMES_MAX = 64
_THREADS_MAX = 256
_TEXT_CHARS = 300
_AT_ONCE = min(32, 2 * (os.cpu_count() or 1))
_OURS = os.sep + "chaoskit" + os.sep
_NOT_THE_USERS = (
    f"{_OURS}faults{os.sep}",
    f"{_OURS}rank{os.sep}",
    f"{_OURS}intercept{os.sep}",
    f"{_OURS}guards{os.sep}",
    f"{_OURS}launchers{os.sep}",
    f"{_OURS}progress.py",
    f"{os.sep}torch{os.sep}",
    f"{os.sep}multiprocess{os.sep}",
    f"{os.sep}lib{os.sep}python3",
    "<frozen ",
)
_ANSWERING: Final = os.path.join("chaoskit", "rank", os.path.basename(answering.__file__))
_DAMAGED = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
_Frame = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Stack:
    """The main thread's frames, innermost first, as ``function (file:line)``; ``line`` is the innermost."""

    frames: tuple[str, ...] = ()
    line: str = ""
    user_line: str = ""  # innermost frame that is neither torch's, the standard library's nor chaoskit's


@dataclass(frozen=True, slots=True)
class StackSource(Source):
    """Where every Python thread of a rank is; with native frames where they are asked for.

    py-spy pauses nothing, so it reads stopped ranks too. Native frames need the rank to be paused for a
    moment, which a stopped one cannot be; reading them takes tenths of a second of a core for each rank.
    """

    name: ClassVar[str] = "stacks"
    file: ClassVar[str] = "stack.json"

    def gather(self, scene: Scene) -> Iterator[tuple[int, Report]]:
        found: dict[int, Report] = {}
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            tasks = {pool.submit(_report, scene, slot): slot for slot in scene.pids}
            for task in as_completed(tasks):
                found[tasks[task]] = task.result()
                yield tasks[task], task.result()
            if scene.native:  # those of Python first, as these may not be there in time
                had = {slot: report for slot, report in found.items() if report.found is not None}
                again = {pool.submit(_with_native, scene, slot, had[slot]): slot for slot in had}
                for task in as_completed(again):
                    yield again[task], task.result()


def gather(pids: Mapping[int, int]) -> dict[int, Stack]:
    """Return the stack of each process (key -> pid), all read in parallel."""
    if not pids:
        return {}
    with ThreadPoolExecutor(max_workers=min(8, len(pids))) as pool:
        return dict(zip(pids, pool.map(read, pids.values()), strict=True))


def read(pid: int) -> Stack:
    """Return the stack of the process's main thread, or an empty one."""
    return parse(_dump(pid, _within(TIMEOUT_S)).output, pid)


def parse(output: bytes, pid: int) -> Stack:
    """Return the main thread's stack from py-spy's JSON."""
    try:
        threads = json.loads(output)
        main = next((t for t in threads if t.get("os_thread_id") == pid), threads[0])
        frames = _frames(main)
    except _DAMAGED:
        return Stack()
    return _stack(frames)


def of_main(found: Stacks) -> Stack:
    """Return the main thread's Python frames among all that was found: what a history holds."""
    main = next((t for t in found.threads if t.main), ThreadStack())
    return _stack([frame for text in main.frames if (frame := _read_frame(text)) is not None])


# ---------------------------------------------------------------- at the deadline


def _report(scene: Scene, slot: int) -> Report:
    pid = scene.pids[slot]
    ran = _dump(pid, _within(DUMP_S, scene))
    threads = parse_threads(ran.output, pid)
    if threads:
        return Report(_found(pid, threads, "py-spy"))
    why = f"stacks: {ran.problem or 'py-spy printed what cannot be read'}"
    exchange = scene.exchanges.get(slot)
    if exchange is None:
        return Report(missing=(why,))
    try:
        told = _faulthandler.read(pid, exchange, scene.folder(slot), _within(DUMP_S, scene))
    except (_faulthandler.NotHad, OSError) as error:
        return Report(missing=(f"{why}; {error}",))
    return Report(_found(pid, _without_ours(told), "faulthandler"), (f"{why}; read by faulthandler instead",))


def _with_native(scene: Scene, slot: int, had: Report) -> Report:
    """Return the report with native frames, or with why there are none."""
    pid = scene.pids[slot]
    ran = _dump(pid, _within(NATIVE_S, scene), native=True)
    threads = parse_threads(ran.output, pid)
    if threads:
        return Report(_found(pid, threads, "py-spy"), had.missing)
    return replace(had, missing=(*had.missing, f"native frames: {ran.problem or 'py-spy printed rubbish'}"))


def _found(pid: int, threads: tuple[ThreadStack, ...], by: str) -> Stacks:
    found = Stacks(by=by, state=process.look(pid).state, threads=threads)
    main = of_main(found)
    return replace(found, line=main.line, frames=main.frames)


def parse_threads(output: bytes, pid: int) -> tuple[ThreadStack, ...]:
    """Return every thread in py-spy's JSON but chaoskit's own that answers; the main thread first."""
    try:
        listed = json.loads(output)[:_THREADS_MAX]
    except _DAMAGED:
        return ()
    found = [thread for value in listed if (thread := _parse_thread(value, pid)) is not None]
    return _without_ours(tuple(sorted(found, key=lambda t: not t.main)))


def _parse_thread(value: Any, pid: int) -> ThreadStack | None:
    try:
        number, name = value["os_thread_id"], value.get("thread_name")
        frames = tuple(_written(frame) for frame in _frames(value))
        if not isinstance(number, int) or not 0 < number < 1 << 32:
            number = 0
    except _DAMAGED:
        return None
    name = str(name)[:_TEXT_CHARS] if name else f"thread {number}"
    return ThreadStack(name, number, number == pid, frames, holds_gil=value.get("owns_gil") is True)


def _without_ours(threads: tuple[ThreadStack, ...]) -> tuple[ThreadStack, ...]:
    """Also without those that are in no Python at all, as ours is before it begins."""
    return tuple(t for t in threads if t.main or (t.frames and _ANSWERING not in t.frames[-1]))


def _frames(thread: Any) -> list[_Frame]:
    return [(str(f["name"]), str(f["filename"]), int(f["line"])) for f in thread["frames"][:FRAMES_MAX]]


def _written(frame: _Frame) -> str:
    """One of Python's has a line, one of native code has none."""
    name, file, line = frame
    where = f"{file}:{line}" if line else os.path.basename(file)
    return f"{name[:_TEXT_CHARS]} ({where})"


def _read_frame(text: str) -> _Frame | None:
    # The path of a file may have brackets in it, the name of a Python function has none.
    name, _, where = text.removesuffix(")").partition(" (")
    file, colon, line = where.rpartition(":")
    return (name, file, int(line)) if colon and line.isascii() and line.isdecimal() else None


def _stack(frames: list[_Frame]) -> Stack:
    if not frames:
        return Stack()
    user = next((f for f in frames if not any(part in f[1] for part in _NOT_THE_USERS)), None)
    return Stack(
        tuple(f"{name} ({file}:{line})" for name, file, line in frames),
        f"{frames[0][1]}:{frames[0][2]}",
        f"{user[1]}:{user[2]}" if user else "",
    )


# ---------------------------------------------------------------- py-spy


def _dump(pid: int, left_s: Callable[[], float], native: bool = False) -> _program.Ran:
    command = _py_spy()
    if command is None:
        return _program.Ran(problem="there is no py-spy")
    way = "--native" if native else "--nonblocking"  # it knows no way to do both
    return _program.run([command, "dump", "--json", way, "--pid", str(pid)], left_s)


def _within(limit_s: float, scene: Scene | None = None) -> Callable[[], float]:
    """Return what tells how much is left of ``limit_s`` from its first call on, and of the scene's time."""
    until: list[float] = []

    def left_s() -> float:
        now = time.monotonic()
        if not until:
            until.append(now + limit_s)
        own = until[0] - now
        return own if scene is None else min(own, scene.left_s)

    return left_s


@cache
def _py_spy() -> str | None:
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")
