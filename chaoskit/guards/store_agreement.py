"""All ranks agree on the largest of their numbers, through the job's store, without waiting for one another.

Each proposes when it comes by, and asks later whether all have. No collective: the order of the job's
operations is not touched. May not know what the numbers mean.
"""

from __future__ import annotations

import contextlib


class StoreAgreement:
    """One agreement after the other, in the default group; every rank has to make the same ones."""

    def __init__(self, prefix: str) -> None:
        from torch._C._distributed_c10d import PrefixStore
        from torch.distributed import distributed_c10d as c10d

        self._store = PrefixStore(prefix, c10d._get_default_store())
        self._rank = c10d.get_rank()
        self._size = c10d.get_world_size()
        self._round = 0
        self.is_open = False
        """This rank has proposed, and not yet heard."""

    def propose(self, value: float) -> None:
        """Say this rank's number. The last to do so finds the largest for all."""
        self._round += 1
        self.is_open = True
        self._store.set(f"{self._round}/{self._rank}", repr(value))
        if self._store.add(f"{self._round}/told", 1) < self._size:
            return
        keys = [f"{self._round}/{rank}" for rank in range(self._size)]
        largest = max(float(self._store.get(key)) for key in keys)
        self._store.set(f"{self._round}/largest", repr(largest))
        with contextlib.suppress(RuntimeError):  # a store that cannot delete
            # All have come to this round, so nobody reads the last one any more.
            for key in [*keys, f"{self._round}/told", f"{self._round - 1}/largest"]:
                self._store.delete_key(key)

    def largest(self) -> float | None:
        """Return what was agreed; None while a rank has yet to propose. Costs one question to the store."""
        key = f"{self._round}/largest"
        if not self._store.check([key]):
            return None
        self.is_open = False
        return float(self._store.get(key))
