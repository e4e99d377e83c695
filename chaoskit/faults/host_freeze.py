"""A host that stands still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults import _hosts
from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet, Span
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class HostFreeze(RankFault):
    """All processes on the host are stopped at once, as when a hypervisor pauses a machine or its kernel
    hangs: links stay up, connections are taken by the kernel, nobody answers. No launcher learns of it but
    by silence. `host` names another host than the rank's; `store` is that of the store.

    Needs virtual hosts (`topology: {hosts: 2}`).

    Example:

        faults:
          - host-freeze: {rank: 2}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "host-freeze"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    needs_hosts: ClassVar[bool] = True
    host_wide: ClassVar[bool] = True
    releases: ClassVar[Literal["at_end"]] = "at_end"

    rank: RankSet
    host: str = ""
    back_after_s: Span | float = _hosts.NEVER

    def __post_init__(self) -> None:
        _hosts.check_back_after(self.back_after_s)

    def fire(self, here: Moment) -> None:
        _hosts.order(here, Order("freeze", _hosts.meant(self.host)), self.back_after_s)
