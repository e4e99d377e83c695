"""A process that the launcher gives another environment than the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults.family import RankFault
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class Environment(RankFault):
    """The launcher hands the rank other variables than it should: a WORLD_SIZE that differs, a RANK used
    twice, no LOCAL_RANK, an address that does not resolve, the name of a network interface that does not
    exist. Seen in pytorch/pytorch#85604 (a rank used twice), pytorch/pytorch#73682 (address).

    `rank` is the process as it was meant to be, by order of starting.

    Example:

        faults:
          - environment: {rank: 2, set: {WORLD_SIZE: "3"}, unset: [LOCAL_RANK]}
            when: launch
    """

    name: ClassVar[str] = "environment"
    triggers: ClassVar[frozenset[str]] = frozenset({"launch"})

    rank: RankSet
    set: tuple[tuple[str, str], ...] = ()
    unset: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.set and not self.unset:
            raise ValueError("nothing to set or unset")
        for name in (*(key for key, _ in self.set), *self.unset):
            if not name or "=" in name or "\0" in name:
                raise ValueError(f"{name!r} is no name of an environment variable")

    def environment(self, env: dict[str, str]) -> None:
        env.update(self.set)
        for name in self.unset:
            env.pop(name, None)
