"""A host that loses power."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults import _hosts
from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet, Span
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class HostCrash(RankFault):
    """The virtual host of the rank loses power: its links go down and all its processes are gone at the same
    time, so no peer gets a FIN or RST, and gloo too waits for its timeout; no launcher learns of it but by
    silence. With `back_after` the links come back, as after a reboot; its processes do not. `host` names
    another host than the rank's own; `store` is the one on which the store lives.

    Needs virtual hosts (`topology: {hosts: 2}`).

    Example:

        faults:
          - host-crash: {rank: 2}
            when: {op: all_reduce, nth: 8, phase: during}
    """

    name: ClassVar[str] = "host-crash"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    ends_by_signal: ClassVar[bool] = True
    any_thread: ClassVar[bool] = True
    host_wide: ClassVar[bool] = True
    needs_hosts: ClassVar[bool] = True
    releases: ClassVar[Literal["at_end"]] = "at_end"

    rank: RankSet
    host: str = ""
    back_after_s: Span | float = _hosts.NEVER

    def __post_init__(self) -> None:
        _hosts.check_back_after(self.back_after_s)

    def fire(self, here: Moment) -> None:
        with contextlib.suppress(RuntimeError) if not self.host else contextlib.nullcontext():
            _hosts.order(here, Order("crash", _hosts.meant(self.host)), self.back_after_s)
        if not self.host:  # the signal is on its way
            threading.Event().wait()
