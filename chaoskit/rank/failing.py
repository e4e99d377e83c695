"""What is said of an exception that leaves the script, and how it is shown.

Frames of chaoskit are taken out of the traceback: a fault has to look like the bug that it stands for.
"""

from __future__ import annotations

import os
import time
import traceback
from types import TracebackType
from typing import Final

import chaoskit
from chaoskit.guards.failure import category, chain
from chaoskit.history import ErrorCategory, Raised
from chaoskit.intercept import where

_PACKAGE: Final = os.path.dirname(os.path.abspath(chaoskit.__file__)) + os.sep
_WORKLOADS: Final = os.path.join(_PACKAGE, "workloads") + os.sep
_RUNNER: Final = os.path.join(_WORKLOADS, "__init__.py")
_STACK_LINES: Final = 24
LAUNCHER_VARIABLES: Final = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
)


def raised(slot: int, error: BaseException) -> Raised:
    """Return the event for ``error``, which has left the script (its frames already cleaned)."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = tuple(f"{f.filename}:{f.lineno} in {f.name}" for f in frames)[-_STACK_LINES:]
    site = next(
        (f"{f.filename}:{f.lineno}" for f in reversed(frames) if not where._is_foreign(f.filename, ())), ""
    )
    return Raised(time.monotonic(), slot, type(error).__name__, str(error), category_of(error), site, lines)


def category_of(error: BaseException) -> ErrorCategory:
    """Return what the error is about; a variable that the launcher should have set is configuration."""
    found = category(error)
    if found == "own" and any(
        isinstance(e, KeyError) and e.args[:1] and e.args[0] in LAUNCHER_VARIABLES for e in chain(error)
    ):
        return "configuration"
    return found


def clean(error: BaseException) -> None:
    """Take chaoskit's own frames out of the tracebacks of ``error`` and of what it was raised from."""
    for link in chain(error):
        link.__traceback__ = _cleaned(link.__traceback__)


def _cleaned(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while trace is not None:
        path = os.path.abspath(trace.tb_frame.f_code.co_filename)
        if not path.startswith(_PACKAGE) or (path.startswith(_WORKLOADS) and path != _RUNNER):
            kept.append(trace)
        trace = trace.tb_next
    result: TracebackType | None = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result
