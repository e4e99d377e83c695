"""All ranks of a group meet in the job's store: with a time limit, and one learns who did not come.

No collective: the order of the job's operations is not touched, and a GPU has nothing to wait for. Keys are
under ``chaoskit/``. A store whose host is frozen answers nobody, and is not noticed here.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store
    from torch.distributed import ProcessGroup

_PAUSE_S = (0.002, 0.25)
_held: Counter[str] = Counter()


class Meeting:
    """One meeting of the ranks of ``group`` (None: all). Every rank of it has to make the same ones."""

    def __init__(self, purpose: str, group: ProcessGroup | None) -> None:
        import torch.distributed as dist
        from torch.distributed import distributed_c10d as c10d

        known = c10d._get_default_group() if group is None else group
        self.ranks = tuple(dist.get_process_group_ranks(known))
        self.rank = dist.get_rank()
        if self.rank not in self.ranks:
            raise ValueError(f"rank {self.rank} is not in the group, whose ranks are {self.ranks}")
        # Not Python's hash: it differs between processes. Groups of one name may have different members.
        which = f"chaoskit/{purpose}/{c10d._world.pg_names[known]}.{min(self.ranks)}.{len(self.ranks)}"
        _held[which] += 1
        self._number = _held[which]
        self._which = which
        self._store: Store = c10d._get_default_store()

    def arrive(self, timeout_s: float) -> list[int]:
        """Wait for everybody; return the ranks that did not come in time."""
        self.tell(f"here/{self.rank}", "")
        if self.count("arrived") == len(self.ranks):
            self.tell("all", "")
        if self.hear("all", timeout_s) is not None:
            if self.rank == min(self.ranks):
                self._forget_previous()
            return []
        return [rank for rank in self.ranks if not self._store.check([self._key(f"here/{rank}")])]

    def tell(self, what: str, text: str) -> None:
        """Say something that everybody at this meeting can hear."""
        self._store.set(self._key(what), text)

    def count(self, what: str, amount: int = 1) -> int:
        """Add to a number that everybody shares, and return it."""
        return int(self._store.add(self._key(what), amount))

    def hear(self, what: str, timeout_s: float) -> str | None:
        """Wait for what somebody tells; None where nobody does in time.

        Asks again and again: so a signal handler of the script runs meanwhile, which it does not in the
        store's own wait."""
        key, pause = self._key(what), _PAUSE_S[0]
        until = time.monotonic() + timeout_s
        while not self._store.check([key]):
            left = until - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, _PAUSE_S[1])
        return self._store.get(key).decode()

    def _key(self, what: str) -> str:
        return f"{self._which}/{self._number}/{what}"

    def _forget_previous(self) -> None:
        """Everybody is here, so nobody reads what the last meeting left in the store."""
        before = f"{self._which}/{self._number - 1}/"
        whats = [*(f"here/{rank}" for rank in self.ranks), "arrived", "all", "result", "missing", "failed"]
        with contextlib.suppress(RuntimeError):  # a store that cannot delete
            for what in whats:
                self._store.delete_key(before + what)
