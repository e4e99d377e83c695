"""Saving and loading a checkpoint as one act of the whole job: it succeeds on all ranks or fails on all.

For a script to call; the guard `checkpoint` documents it. May end nothing: it raises.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chaoskit import progress
from chaoskit.guards.atomic_file import replacing
from chaoskit.guards.roll import ranks_text
from chaoskit.guards.store_meeting import Meeting

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_timeout_s = 600.0


class CheckpointFailed(RuntimeError):
    """A checkpoint was not saved or not loaded. Raised on every rank.

    ``rank`` is the global rank on which it failed (-1: several, or none in particular).
    """

    def __init__(self, rank: int, path: str, reason: str) -> None:
        self.rank = rank
        self.path = path
        self.reason = reason
        super().__init__(f"checkpoint {path}: {reason}")


def set_timeout(seconds: float) -> None:
    """Change how long the ranks wait for each other where a call does not say."""
    global _timeout_s
    _timeout_s = seconds


def save_checkpoint(
    obj: object | Callable[[], object],
    path: str | os.PathLike[str],
    *,
    timeout_s: float | None = None,
    group: ProcessGroup | None = None,
) -> None:
    """Save ``obj`` to ``path`` on one rank, atomically; call it on every rank of ``group`` (default: all).

    That rank is global rank 0, or the first of ``group``. ``obj`` may be a function, called there only. Each
    rank waits at most ``timeout_s`` for all to come, and as long again for the file to be saved. Raises
    CheckpointFailed on every rank where that is not so. Without a process group it only saves.
    """
    where = os.fspath(path)
    wait_s = _timeout_s if timeout_s is None else timeout_s
    with progress.phase("checkpoint", 2 * wait_s):
        meeting = _meeting("save", group)
        if meeting is None:
            _save(obj, where)
            return
        writer = min(meeting.ranks)
        _gather(meeting, where, wait_s)
        if meeting.rank == writer:
            _save_and_tell(obj, where, meeting)
            return
        said = meeting.hear("result", wait_s)
    if said is None:
        raise CheckpointFailed(writer, where, f"rank {writer} has not saved it within {wait_s:g} s")
    if said:
        raise CheckpointFailed(writer, where, said)


def load_checkpoint(
    path: str | os.PathLike[str],
    *,
    missing_ok: bool = False,
    map_location: Any = None,
    weights_only: bool = True,
    timeout_s: float | None = None,
    group: ProcessGroup | None = None,
) -> Any:
    """Return what ``torch.load`` gives, on every rank of ``group`` or on none.

    Raises CheckpointFailed on every rank where one cannot load it, or where only some see a file; with
    ``missing_ok`` it is None where none does, so that all ranks decide alike whether to start afresh.
    """
    where = os.fspath(path)
    wait_s = _timeout_s if timeout_s is None else timeout_s
    with progress.phase("checkpoint", 2 * wait_s):
        meeting = _meeting("load", group)
        found, error = _load(where, map_location, weights_only)
        missing = isinstance(error, FileNotFoundError)
        if meeting is None:
            missed, size = int(missing), 1
            failure = "" if error is None or missing else f"{type(error).__name__}: {error}"
        else:
            size = len(meeting.ranks)
            missed, failure = _compare_loads(meeting, where, error, wait_s)
    if failure:
        raise CheckpointFailed(-1, where, failure) from error
    if missed == size and missing_ok:
        return None
    if missed:
        how = "no rank sees it" if missed == size else f"{missed} of {size} ranks do not see it"
        raise CheckpointFailed(-1, where, how) from error
    return found


def _meeting(purpose: str, group: ProcessGroup | None) -> Meeting | None:
    import torch.distributed as dist

    return Meeting(f"checkpoint/{purpose}", group) if dist.is_available() and dist.is_initialized() else None


def _gather(meeting: Meeting, path: str, wait_s: float) -> None:
    absent = meeting.arrive(wait_s)
    if absent:
        rank = absent[0] if len(absent) == 1 else -1
        raise CheckpointFailed(rank, path, f"{ranks_text(absent)} did not come to it within {wait_s:g} s")


def _save_and_tell(obj: object, path: str, meeting: Meeting) -> None:
    try:
        _save(obj, path)
    except BaseException as error:
        reason = f"rank {meeting.rank} could not save it: {type(error).__name__}: {error}"
        meeting.tell("result", reason)
        if isinstance(error, Exception):
            raise CheckpointFailed(meeting.rank, path, reason) from error
        raise
    meeting.tell("result", "")


def _save(obj: object, path: str) -> None:
    import torch

    made = obj() if callable(obj) and not isinstance(obj, torch.nn.Module) else obj
    with replacing(path) as written:  # where torch.save is atomic by itself, twice is as good as once
        torch.save(made, written)


def _load(path: str, map_location: Any, weights_only: bool) -> tuple[Any, Exception | None]:
    import torch

    try:
        return torch.load(path, map_location=map_location, weights_only=weights_only), None
    except Exception as error:  # noqa: BLE001 - told to all ranks, whatever it is
        return None, error


def _compare_loads(meeting: Meeting, path: str, error: Exception | None, wait_s: float) -> tuple[int, str]:
    """Return how many ranks miss the file, and what went wrong on one that has it."""
    if isinstance(error, FileNotFoundError):
        meeting.count("missing")
    elif error is not None and meeting.count("failed") == 1:
        meeting.tell("result", f"rank {meeting.rank} could not load it: {type(error).__name__}: {error}")
    _gather(meeting, path, wait_s)
    failure = (meeting.hear("result", wait_s) or "") if meeting.count("failed", 0) else ""
    return meeting.count("missing", 0), failure
