"""A host that loses power."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults._hosts import NetworkFault, meant
from chaoskit.faults.family import Moment
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class HostCrash(NetworkFault):
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
    ends_by_signal: ClassVar[bool] = True
    host_wide: ClassVar[bool] = True
    releases: ClassVar[Literal["at_end"]] = "at_end"

    host: str = ""

    def fire(self, here: Moment) -> None:
        with contextlib.suppress(RuntimeError) if not self.host else contextlib.nullcontext():
            self.order(here, Order("crash", meant(self.host)))
        if not self.host:  # the signal is on its way
            threading.Event().wait()
