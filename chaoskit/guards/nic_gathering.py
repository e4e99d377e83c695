"""How the ranks talk about their interfaces in the job's store: few round trips, and nobody is left waiting.

All ranks pass the same gates. What a gate says is said once: by the last rank to come, or by the first that
gives up (``aside``); so either all go on, or nobody does. Raises what the store raises (RuntimeError).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from chaoskit.guards.nic_card import Card, Failure, from_rows, to_rows

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

ASIDE: Final = "aside"
_OK, _FAILING = "ok", "failing"
_Gate = Literal["here", "tried", "looked", "measured", "leaving"]
_GATES: Final[tuple[_Gate, ...]] = ("here", "tried", "looked", "measured")
LEAVE_S: Final = 2.0
"""How long ranks that are about to end wait for the others to say why."""


class Gathering:
    """One check, the ``taken``-th of this process; every rank makes as many. Times are of CLOCK_MONOTONIC."""

    def __init__(self, store: Store, taken: int, rank: int, world_size: int) -> None:
        from torch._C._distributed_c10d import PrefixStore

        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = PrefixStore(f"chaoskit/nic_check/{attempt}.{taken}", store)
        self._rank = rank
        self._world_size = world_size

    def cards(self, mine: Card, until: float) -> list[Card] | None:
        """Show ``mine`` and return everybody's, by rank; None where somebody does not come."""
        self._store.set(f"card/{self._rank}", mine.to_json())
        if self._pass("here", until) == ASIDE:
            return None
        return [Card.from_json(text) for text in self._all("card", range(self._world_size))]

    def report(self, failing: Sequence[Failure], until: float) -> list[Failure] | None:
        """Say what failed here and return what failed anywhere; None where somebody says nothing."""
        if failing:
            number = self._store.add("failing", 1)
            self._store.set(f"failing/{number}", to_rows(failing))
        said = self._pass("tried", until)
        if said != _FAILING:
            return None if said == ASIDE else []
        return self._rows("failing")

    def report_again(
        self, failing: Sequence[Failure], heard: set[int], until: float
    ) -> tuple[list[Failure], list[set[int]]] | None:
        """The same after the second look, with the ranks that each rank has heard from, by rank."""
        if failing:
            number = self._store.add("still", 1)
            self._store.set(f"still/{number}", to_rows(failing))
        self._store.set(f"heard/{self._rank}", ",".join(map(str, sorted(heard))))
        if self._pass("looked", until) == ASIDE:
            return None
        texts = self._all("heard", range(self._world_size))
        return self._rows("still"), [{int(n) for n in t.decode().split(",") if n} for t in texts]

    def leave_together(self) -> None:
        """Wait, but not for long, until every rank has come here."""
        with contextlib.suppress(RuntimeError):  # the host of the store has left already
            self._pass("leaving", time.monotonic() + LEAVE_S)

    def rates(
        self, number: int, mine: Mapping[int, float], of: int, until: float
    ) -> list[dict[int, float]] | None:
        """Say what was measured on host ``number``, by the host that sent; return what all hosts say."""
        self._store.set(f"rate/{number}", json.dumps(list(mine.items())))
        if self.wait_measured(until) == ASIDE:
            return None
        return [dict(json.loads(text)) for text in self._all("rate", range(of))]

    def wait_measured(self, until: float) -> str:
        """Wait until all hosts have measured."""
        return self._pass("measured", until)

    def give_up(self) -> None:
        """Let nobody wait for this rank."""
        with contextlib.suppress(RuntimeError):
            for gate in _GATES:
                self._store.compare_set(gate, "", ASIDE)

    def _pass(self, gate: _Gate, until: float) -> str:
        if self._store.add(f"{gate}/count", 1) == self._world_size:
            failing = gate == "tried" and self._store.add("failing", 0) > 0
            return self._store.compare_set(gate, "", _FAILING if failing else _OK).decode()
        try:
            self._store.wait([gate], timedelta(seconds=max(0.001, until - time.monotonic())))
        except RuntimeError:  # DistStoreError: nobody has said anything in time, or the store is gone
            return self._store.compare_set(gate, "", ASIDE).decode()
        return self._store.get(gate).decode()

    def _rows(self, what: str) -> list[Failure]:
        texts = self._all(what, range(1, self._store.add(what, 0) + 1))
        return [failure for text in texts for failure in from_rows(text)]

    def _all(self, what: str, numbers: range) -> list[bytes]:
        keys = [f"{what}/{n}" for n in numbers]
        if not keys:
            return []
        try:
            return list(self._store.multi_get(keys))
        except (RuntimeError, NotImplementedError):  # a store of the script's that cannot
            return [self._store.get(key) for key in keys]
