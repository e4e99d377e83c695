"""Knows the worker processes of this rank's DataLoaders, by number, once :func:`watch` has been called."""

from __future__ import annotations

import ctypes
import functools
import signal
import weakref
from collections.abc import Callable
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1

_iterators: list[weakref.ref[Any]] = []  # newest last
_watching = False
_loop: Callable[..., None] | None = None  # torch's own


def check_number(worker: int) -> None:
    """Raise ValueError unless ``worker`` can be the number of a worker."""
    if worker < 0:
        raise ValueError(f"worker must be a number from 0, is {worker}")


def watch() -> None:
    """Remember every iterator with workers that is made from now on."""
    global _watching
    if _watching:
        return
    _watching = True
    from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter as Iterator

    original = Iterator.__init__

    @functools.wraps(original)
    def remembered(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _iterators[:] = [known for known in _iterators if known() is not None]
        _iterators.append(weakref.ref(self))

    Iterator.__init__ = remembered  # type: ignore[method-assign]


def end_with_rank() -> None:
    """Let every worker that is started from now on be killed with its rank, also while it is stopped."""
    from torch.utils.data._utils import worker

    global _loop
    if _loop is None:
        _loop = worker._worker_loop
        worker._worker_loop = _bound_to_its_rank


def _bound_to_its_rank(*args: Any, **kwargs: Any) -> None:
    """What a worker runs; found by its name where workers are spawned, where nothing was replaced."""
    from torch.utils.data._utils import worker

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    (_loop or worker._worker_loop)(*args, **kwargs)


def pid(worker: int) -> int:
    """Return the process that is worker number ``worker`` of the newest DataLoader which has it alive.

    Raises LookupError where there is none.
    """
    for known in reversed(_iterators):
        iterator = known()
        workers = [] if iterator is None else iterator._workers
        if worker < len(workers) and workers[worker].is_alive():
            return int(workers[worker].pid)
    raise LookupError(f"no DataLoader of this rank has a worker {worker} that is alive")
