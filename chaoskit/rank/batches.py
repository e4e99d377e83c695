"""Counts the batches that the DataLoaders of this rank hand out, and fires what waits for one of them.

Sees every loader that iterates as torch's own do, with workers or without, in the rank itself: a worker
process hands nothing to the script. May not change what a loader yields.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from torch.utils.data import dataloader

from chaoskit.model import Phase
from chaoskit.rank.triggers import Fire, Shot


class Batches:
    """``count`` is the number of batches that were handed out so far."""

    def __init__(self) -> None:
        self.count = 0


def count_batches(shots: Iterable[Shot], fire: Fire) -> Batches:
    """Wrap the iterators of all loaders; return the count, which goes on."""
    batches = Batches()
    original: Any = dataloader._BaseDataLoaderIter.__next__
    waiting = tuple(shots)

    @functools.wraps(original)
    def counted(loader: Any) -> Any:
        due = [shot for shot in waiting if shot.due()] if waiting else ()
        for shot in due:
            if shot.when.phase is not Phase.AFTER:
                fire(shot)
        try:
            batch = original(loader)
        except StopIteration:
            for shot in waiting:  # the end of an epoch is no batch
                shot.uncount()
            raise
        batches.count += 1
        for shot in due:
            if shot.when.phase is Phase.AFTER:
                fire(shot)
        return batch

    dataloader._BaseDataLoaderIter.__next__ = counted  # type: ignore[method-assign, assignment]
    return batches
