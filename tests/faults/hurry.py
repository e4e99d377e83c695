"""Timeouts that are short from some operation on: until then a loaded machine may take its time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet, Trigger


@dataclass(frozen=True, slots=True)
class Hurry(RankFault):
    """Every operation from here on may take no longer than this, in whatever group."""

    name: ClassVar[str] = "hurry"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT

    rank: RankSet
    to_s: float

    def fire(self, here: Moment) -> None:
        from torch.distributed import distributed_c10d as c10d

        for group in list(c10d._world.pg_map):
            c10d._set_pg_timeout(timedelta(seconds=self.to_s), group)


def hurry(when: Trigger, to_s: float = 3.0) -> tuple[Hurry, Trigger]:
    """All ranks, from ``when`` on. Put it before the fault: it is to have happened when that one fires.

    ``to_s`` is how late a rank may be at that operation for the others not to give up before it has come.
    """
    return Hurry("all", to_s), when
