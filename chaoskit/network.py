"""Virtual hosts as values: their interfaces, what a plan makes of them, and what a fault may order.

Frozen, no I/O. :mod:`chaoskit.hosts` builds them, :mod:`chaoskit.scenario` reads them from files.
"""

from __future__ import annotations

import ipaddress
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

HOSTS_MAX = 200
"""More do not fit into the default networks (a /24 for each interface, .254 for the host of the store)."""
STORE_NUMBER = 254
"""The host of a store has this address of a network, or the last one where it has less."""
NICS_MAX = 16
STORE_HOST = "store"
"""The host of a store that is no rank's; in faults: the host on which the store lives, whichever it is."""
DEFAULT_NIC = "eth0"
INSIDE = "lo"
"""The interface that every host has."""

Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Nic:
    """A network interface that hosts have, as a file declares it.

    - ``subnet``: the network it is in (10.77.0.0/24, fd00:77::/64); '' is one of its own. All hosts'
      interfaces of one name are plugged into one switch;
    - ``rate_bps``: what the link carries, in bits per second; None: what the machine can do;
    - ``same_address``: it is plugged into no switch and has this address (172.17.0.1/16) on every host, as a
      container bridge does;
    - ``port``: ``down``, where the port of its switch is;
    - ``on``: the hosts that have it; () is all.
    """

    name: str = DEFAULT_NIC
    subnet: str = ""
    rate_bps: float | None = None
    same_address: str = ""
    port: Literal["up", "down"] = "up"
    on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NicPlan:
    """One interface of one host. ``address`` has its prefix length; ``switch`` is '' where it is in none."""

    name: str
    address: str
    switch: str
    rate_bps: float | None = None
    port: Literal["up", "down"] = "up"

    @property
    def ip(self) -> str:
        return self.address.partition("/")[0]


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One virtual host: its interfaces, and the rows (address, name) of its hosts file."""

    name: str
    nics: tuple[NicPlan, ...]
    names: tuple[tuple[str, str], ...]

    def nic(self, name: str) -> NicPlan | None:
        return next((n for n in self.nics if n.name == name), None)

    @property
    def address(self) -> str:
        """The address by which others know it: that of its first interface in a switch; '' without one."""
        return next((n.ip for n in self.nics if n.switch), "")


@dataclass(frozen=True, slots=True)
class Network:
    """The hosts of one arm. ``store`` is the name of the host on which the store listens."""

    hosts: tuple[HostPlan, ...]
    store: str

    def host(self, name: str) -> HostPlan | None:
        """Return the host called ``name`` (``store``: the one with the store), or None."""
        wanted = self.store if name == STORE_HOST else name
        return next((h for h in self.hosts if h.name == wanted), None)


OrderKind = Literal["port", "rate", "partition", "one-way", "only-port", "crash", "freeze", "name"]


@dataclass(frozen=True, slots=True)
class Order:
    """A change of the network that a fault orders, carried out before the fault goes on.

    - ``port``: the switch ports of ``host``'s ``nic`` ('' is all) go down;
    - ``rate``: these ports carry ``rate_bps`` bits per second, in both directions;
    - ``partition``: ``hosts`` are moved to a switch of their own: nothing passes between them and the rest,
      and every link stays up;
    - ``one-way``: what ``host`` sends is dropped at all others; what they send arrives;
    - ``only-port``: all hosts drop what is neither for nor from ``port``;
    - ``crash``: the ports of ``host`` go down and all its processes are killed;
    - ``freeze``: all processes of ``host`` are stopped (SIGSTOP);
    - ``name``: ``name`` no longer stands in the hosts file of ``host``.

    Undone ``for_s`` seconds later (the network, not the processes); infinity is never.
    """

    kind: OrderKind
    host: str = ""
    nic: str = ""
    rate_bps: float = 0.0
    hosts: tuple[str, ...] = ()
    port: int = 0
    name: str = ""
    for_s: float = float("inf")


def host_names(count: int) -> tuple[str, ...]:
    """Return hostA, hostB, … hostZ, hostAA, …"""
    return tuple(f"host{_letters(number)}" for number in range(count))


def _letters(number: int) -> str:
    letters = string.ascii_uppercase
    return (_letters(number // 26 - 1) if number >= 26 else "") + letters[number % 26]


def host_of_each_rank(ranks: int, hosts: int) -> tuple[str, ...]:
    """Return the host of each rank: blocks in order, the first hosts one larger where it does not divide."""
    share, more = divmod(ranks, hosts)
    names = host_names(hosts)
    return tuple(name for n, name in enumerate(names) for _ in range(share + (n < more)))


def plan_network(hosts: int, nics: tuple[Nic, ...], own_name: str, outside_store: bool) -> Network:
    """Return the resolved network. ``own_name`` is what each host's own name resolves to: an interface, an
    address, or '' for the first interface in a switch. ``outside_store`` adds a host for the store.

    Raises ValueError for a declaration that :mod:`chaoskit.scenario.network_checks` refuses."""
    declared = nics or (Nic(),)
    names = host_names(hosts)
    built = {name: _nics_of(name, number, declared) for number, name in enumerate(names)}
    if outside_store:
        built[STORE_HOST] = _nics_of_store(declared)
    planned = []
    for name, own_nics in built.items():
        own = next((n.ip for n in own_nics if n.name == own_name), own_name) if name in names else ""
        planned.append(HostPlan(name, own_nics, _rows(name, own, built)))
    return Network(tuple(planned), STORE_HOST if outside_store else names[0])


def _nics_of(host: str, number: int, declared: tuple[Nic, ...]) -> tuple[NicPlan, ...]:
    planned = []
    for place, nic in enumerate(declared):
        if nic.on and host not in nic.on:
            continue
        if nic.same_address:
            planned.append(NicPlan(nic.name, nic.same_address, ""))
        else:
            planned.append(_plugged(nic, subnet_of(nic, place), number + 1))
    return tuple(planned)


def _nics_of_store(declared: tuple[Nic, ...]) -> tuple[NicPlan, ...]:
    """The host of the store is in every switch, so that all hosts can reach it."""
    switched = [(place, nic) for place, nic in enumerate(declared) if not nic.same_address]
    subnets = [(nic, subnet_of(nic, place)) for place, nic in switched]
    return tuple(_plugged(nic, subnet, min(STORE_NUMBER, usable(subnet))) for nic, subnet in subnets)


def _plugged(nic: Nic, subnet: Subnet, number: int) -> NicPlan:
    return NicPlan(nic.name, f"{subnet[number]}/{subnet.prefixlen}", nic.name, nic.rate_bps, nic.port)


def subnet_of(nic: Nic, place: int) -> Subnet:
    """Return the network of the interface at ``place`` of the list. Raises ValueError."""
    return ipaddress.ip_network(nic.subnet or default_subnet(place))


def usable(subnet: Subnet) -> int:
    """Return how many hosts have room in it; that is also the number of the last address for one."""
    return max(0, subnet.num_addresses - (2 if subnet.version == 4 else 1))


def default_subnet(place: int) -> str:
    """Return the network of the interface at ``place`` of the list, where none is declared."""
    return f"10.77.{place}.0/24"


Row = tuple[str, str]


def _rows(host: str, own: str, nics: Mapping[str, tuple[NicPlan, ...]]) -> tuple[Row, ...]:
    """The hosts file of ``host``: every host by an address that can be reached from here, if there is one."""
    rows: list[Row] = [("127.0.0.1", "localhost"), ("::1", "localhost")]
    rows += [(own, host)] if own else []
    here = {n.name for n in nics[host]}
    for name, there in nics.items():
        switched = [n for n in there if n.switch]
        best = next((n for n in switched if n.name in here), switched[0] if switched else None)
        if best is not None and not (own and name == host):
            rows.append((best.ip, name))
    return tuple(rows)
