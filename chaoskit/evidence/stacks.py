"""The Python stacks of a live rank, read from outside with py-spy: also of a stopped one.

Needs ptrace; where that is forbidden the result is empty and the judge does without. Bounded in
time; a rank's own memory is hostile, so what does not parse is nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TIMEOUT_S = 5.0
FRAMES_MAX = 64
_OURS = os.sep + "chaoskit" + os.sep
_NOT_THE_USERS = (
    f"{_OURS}faults{os.sep}",
    f"{_OURS}rank{os.sep}",
    f"{_OURS}intercept{os.sep}",
    f"{_OURS}guards{os.sep}",
    f"{_OURS}launchers{os.sep}",
    f"{os.sep}torch{os.sep}",
    f"{os.sep}multiprocess{os.sep}",
    f"{os.sep}lib{os.sep}python3",
    "<frozen ",
)


@dataclass(frozen=True, slots=True)
class Stack:
    """The main thread's frames, innermost first, as ``function (file:line)``; ``line`` is the innermost."""

    frames: tuple[str, ...] = ()
    line: str = ""
    user_line: str = ""  # innermost frame that is neither torch's, the standard library's nor chaoskit's


def gather(pids: Mapping[int, int]) -> dict[int, Stack]:
    """Return the stack of each process (key -> pid), all read in parallel."""
    if not pids:
        return {}
    with ThreadPoolExecutor(max_workers=min(8, len(pids))) as pool:
        return dict(zip(pids, pool.map(read, pids.values()), strict=True))


def read(pid: int) -> Stack:
    """Return the stack of the process's main thread, or an empty one."""
    command = _py_spy()
    if command is None:
        return Stack()
    try:
        done = subprocess.run(
            [command, "dump", "--json", "--nonblocking", "--pid", str(pid)],
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Stack()
    return parse(done.stdout, pid)


def parse(output: bytes, pid: int) -> Stack:
    """Return the main thread's stack from py-spy's JSON."""
    try:
        threads = json.loads(output)
        main = next((t for t in threads if t.get("os_thread_id") == pid), threads[0])
        frames = [(str(f["name"]), str(f["filename"]), int(f["line"])) for f in main["frames"][:FRAMES_MAX]]
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return Stack()
    if not frames:
        return Stack()
    user = next((f for f in frames if not any(part in f[1] for part in _NOT_THE_USERS)), None)
    return Stack(
        tuple(f"{name} ({file}:{line})" for name, file, line in frames),
        f"{frames[0][1]}:{frames[0][2]}",
        f"{user[1]}:{user[2]}" if user else "",
    )


@cache
def _py_spy() -> str | None:
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")
