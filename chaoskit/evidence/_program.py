"""Runs a program that looks at a rank: bounded in time and in what it may print, and ended when told to.

What it prints comes from the memory of a rank, so it may be anything, and without end.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Final

OUTPUT_BYTES: Final = 8 << 20
_REASON_BYTES: Final = 64 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_TURN_S: Final = 0.1
"""How often it is asked whether somebody still waits."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it. ``problem`` is "" where the program ended by itself with success."""

    output: bytes = b""
    problem: str = ""


def run(command: Sequence[str], left_s: Callable[[], float]) -> Ran:
    """Run ``command`` for as long as ``left_s`` is above 0. Never raises for the program."""
    if left_s() <= 0:
        return Ran(problem="no time was left")
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        return Ran(problem=f"{os.path.basename(command[0])} cannot be started: {error.strerror}")
    name = os.path.basename(command[0])
    try:
        return _result(process, name, left_s)
    finally:
        with contextlib.suppress(OSError):
            process.kill()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait()


def _result(process: subprocess.Popen[bytes], name: str, left_s: Callable[[], float]) -> Ran:
    assert process.stdout is not None
    assert process.stderr is not None
    started = time.monotonic()
    kept = {process.stdout: bytearray(), process.stderr: bytearray()}
    limits = {process.stdout: OUTPUT_BYTES, process.stderr: _REASON_BYTES}
    if not _read(kept, limits, left_s):
        if len(kept[process.stdout]) > OUTPUT_BYTES:
            return Ran(problem=f"{name} printed more than {OUTPUT_BYTES} bytes")
        return Ran(problem=f"{name} was not ready within {time.monotonic() - started:.1f} s")
    try:
        code = process.wait(max(_TURN_S, min(left_s(), 1.0)))
    except subprocess.TimeoutExpired:
        return Ran(problem=f"{name} closed its output and did not end")
    if code:
        return Ran(problem=_reason(name, code, bytes(kept[process.stderr])))
    return Ran(bytes(kept[process.stdout]))


def _read(
    kept: dict[IO[bytes], bytearray], limits: dict[IO[bytes], int], left_s: Callable[[], float]
) -> bool:
    """Take what the streams give until all have ended; return whether that came."""
    with selectors.DefaultSelector() as selector:
        for stream in kept:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = left_s()
            if left <= 0:
                return False
            for key, _ in selector.select(min(left, _TURN_S)):
                stream = next(s for s in kept if s is key.fileobj)
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(stream)
                kept[stream] += chunk
                if len(kept[stream]) > limits[stream]:
                    return False
    return True


def _reason(name: str, code: int, said: bytes) -> str:
    """The innermost cause that it names, else the first line that it wrote to stderr."""
    text = said.decode(errors="replace").partition("Stack backtrace:")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.partition(":")[0].isdecimal()]
    told = causes[-1].partition(":")[2].strip() if causes else (lines[0] if lines else "")
    ended = f"by signal {-code}" if code < 0 else f"with {code}"
    return f"{name} ended {ended}" + (f": {told[:200]}" if told else "")
