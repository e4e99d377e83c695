"""Tries, before the process group forms, whether every pair of ranks can connect over the very interfaces
that the backend will use."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chaoskit.guards import torch_hooks, uncaught
from chaoskit.guards.context import GuardContext, number
from chaoskit.guards.early_store import Place, place_of
from chaoskit.guards.nic_checking import Checking, Finding, Terms
from chaoskit.model import Guard
from chaoskit.rates import HINT, rate_bps

_CONNECT_LEAST_S = 1.0
"""A machine under load stalls for tenths of a second, and a lost packet is sent again after one."""
_SLACK_S = 5.0


@dataclass(frozen=True, slots=True)
class NicCheck(Guard):
    """Before the process group forms, every pair of ranks tries a TCP connection over the interface that the
    backend is going to use: all at once, in the direction in which the backend will connect. If one fails,
    all ranks exit 91 together with one line, which names what would work::

        rank 0 (hostA, docker0 172.17.0.1) cannot be reached from rank 2 (hostB, docker0 172.17.0.1):
        connection refused, as both hosts have that address; eth0 works (10.77.0.1 answers): set
        GLOO_SOCKET_IFNAME=eth0

    (gloo itself waits there for five times its timeout.) To blame is an interface where that is clear: its
    address means nothing on the other host, or it is not the one that most hosts use, or of three hosts and
    more only this one cannot be reached. Else it is the link between two hosts.

    What is tried: gloo's interfaces of GLOO_SOCKET_IFNAME, or the address that the host's own name resolves
    to; with NCCL over sockets the interface of NCCL_SOCKET_IFNAME, or the first in NCCL's own order. Who
    answers has to prove that it is the rank that is meant. Not applicable: NCCL over InfiniBand or with a
    network plug-in, other backends, a ``file://`` rendezvous, devices that the script brings itself. Of
    NCCL's connections only those with rank 0 and to the next rank are certain to be needed: others that fail
    are told and end nothing, and so are all with TORCH_GLOO_LAZY_INIT.

    ``connect_timeout_s`` is how long a connection may take, from when all ranks are there; less than 1 s (in
    a scaled profile) counts as 1 s. What works within it is healthy. After a failure there is a second look
    of at most 3 s, at the other interfaces too. A rank that does not come within ``wait_s``, or dies
    meanwhile, is not this guard's business (census names it): it steps aside, and so it does where the store
    does not answer. A healthy job pays once: less than 2 s with 64 ranks.

    ``min_rate`` (``10gbit``, ``800mbit``; '' is off): one rank of each host sends to one of the next host,
    and back, for 0.3 s or 32 MiB at most. Less than 90 % of ``min_rate`` is told with the interface (``hostB
    eth1 carries 0.9 Gbit/s to hostA``), and the job goes on. One stream is measured: where this machine
    itself is what limits it (at some 10 Gbit/s), nothing is said.

    Every rank needs this guard, and must be allowed to listen on free ports.
    """

    name: ClassVar[str] = "nic_check"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {
        91: "ranks cannot reach one another over the interface that the backend would use"
    }

    connect_timeout_s: float = 40.0
    wait_s: float = 300.0
    min_rate: str = ""

    def __post_init__(self) -> None:
        self._min_bps()

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Stand in front of ``init_process_group``."""
        terms = Terms(max(self.connect_timeout_s, _CONNECT_LEAST_S), self.wait_s, self._min_bps())
        torch_hooks.around_init(_Before(terms, rank))
        rate = (f"min_rate={self.min_rate}",) if self.min_rate else ()
        return (f"connect_timeout={terms.connect_s:g}s", f"wait={terms.wait_s:g}s", *rate)

    def _min_bps(self) -> float:
        """Return bits per second, 0 where nothing is to be measured. Raises ValueError."""
        try:
            return rate_bps(self.min_rate) if self.min_rate else 0.0
        except ValueError as error:
            raise ValueError(f"nic_check: min_rate {error} ({HINT})") from None


class _Before:
    """Checks in one process, on a thread of its own: a store whose host is frozen ignores its timeout."""

    def __init__(self, terms: Terms, rank: GuardContext) -> None:
        self._terms = terms
        self._rank = rank
        self._taken = 0
        self._checking: Checking | None = None  # keeps the server of the store alive until torch shares it

    def before_init(self, given: dict[str, Any]) -> None:
        rank, world_size = _given(given, "rank", "RANK"), _given(given, "world_size", "WORLD_SIZE")
        place = place_of(given)
        if not place.host and place.store is None:
            self._rank.armed(NicCheck.name, (f"init_method={given.get('init_method')}",), applicable=False)
            return
        if not 0 <= rank < world_size or world_size < 2:
            return
        self._taken += 1
        self._check(given, place, rank, world_size)

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        self._checking = None

    def _check(self, given: dict[str, Any], place: Place, rank: int, world_size: int) -> None:
        self._checking = checking = Checking(self._terms, place, self._taken, rank, world_size, given)
        thread = threading.Thread(target=checking.run, name="chaoskit nic_check", daemon=True)
        thread.start()
        thread.join(self._terms.most_s + _SLACK_S)
        finding = checking.finding
        if finding is None:
            finding = Finding(noticed=("the store does not answer, so the interfaces were not checked", ()))
        if finding.unknown:
            self._rank.armed(NicCheck.name, (finding.unknown,), applicable=False)
        if finding.noticed:
            self._rank.noticed(NicCheck.name, *finding.noticed)
        if finding.fatal:
            message, blames = finding.fatal
            ending = uncaught.Ending(NicCheck.name, 91, message, blames=blames)
            uncaught.end(self._rank, ending, checking.leave_together)


def _given(given: dict[str, Any], argument: str, variable: str) -> int:
    value = given.get(argument)
    return value if isinstance(value, int) and value >= 0 else number(variable)
