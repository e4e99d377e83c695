"""Knows the worker processes of this rank's DataLoaders, by number, once :func:`watch` has been called."""

from __future__ import annotations

import functools
import weakref
from typing import Any

_iterators: list[weakref.ref[Any]] = []  # newest last
_watching = False


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
