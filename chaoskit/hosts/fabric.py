"""The links of virtual hosts: interfaces, switches, and what can be done to them, through pyroute2.

Lives in the process called ``switch``, in a network of its own that holds the switches (bridges) and their
ports. Decides nothing. Whoever imports this loads pyroute2 (0.2 s).
"""

from __future__ import annotations

import fcntl
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroute2 import IPRoute

from chaoskit.hosts import namespaces, neighbours
from chaoskit.network import HostPlan, Network, NicPlan

_FIRST_PORT: Final = 1000
"""A port that has the index of its other end on the host would be up only after a second (linkwatch)."""
_NO_DAD: Final = 0x02  # an IPv6 address is of use at once, not after a second of asking around
_LOCAL_TABLE, _LOCAL_PRIORITY = 255, 1000
_ALLOW_PRIORITY, _DROP_PRIORITY = 100, 200
_TCP: Final = 6
_BURST_S, _BURST_BYTES = 0.004, 3000
_QUEUE_S, _QUEUE_BYTES = 0.05, 1 << 16
_UP_LIMIT_S: Final = 10.0
_LOOK_S: Final = 0.0005
_SIOCGIFFLAGS: Final = 0x8913
_IFREQ: Final = struct.Struct("16sh14x8x")
RUNNING: Final = 0x40
"""A flag of an interface: its link carries (IFF_RUNNING)."""
FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)

Port = tuple[str, str]
"""A port of a switch, by the host and the interface that are plugged into it."""


class Fabric:
    """All links of one arm. ``networks`` are descriptors by host. Raises what pyroute2 raises (NetlinkError,
    an Exception with a text) and OSError where the kernel refuses."""

    def __init__(self, network: Network, networks: Mapping[str, int]) -> None:
        self.network = network
        self.networks = dict(networks)
        self._here = namespaces.new_network()
        self._switch = IPRoute()
        self._hosts = {name: self._inside(fd) for name, fd in networks.items()}
        self._bridges: dict[tuple[str, str], int] = {}  # by switch and part
        self.ports: dict[Port, int] = {}
        """Their indices, in the network of the switches."""
        self._nics: dict[Port, int] = {}  # the indices on the hosts
        self._asked_for_rules: set[str] = set()

    def close(self) -> None:
        """Let go of the sockets; the kernel removes all links with the last process and descriptor."""
        for route in (self._switch, *self._hosts.values()):
            route.close()

    def build(self) -> None:
        """Make everything that the plan asks for; links carry from the first packet on."""
        for host in self.network.hosts:
            for nic in host.nics:
                if nic.switch:
                    self._plug(host, nic)
                else:
                    self._unplugged(host, nic)
        if len(self.network.hosts) > neighbours.ASKED_FOR_MAX:
            self._introduce_all()
        self._wait_until_up()

    def enter(self, host: str) -> None:
        """Go into the network of ``host``, to make sockets there; '' is back to the switches."""
        namespaces.enter_network(self.networks[host] if host else self._here)

    # ------------------------------------------------------------ building

    def _inside(self, fd: int) -> Any:
        namespaces.enter_network(fd)
        try:
            return IPRoute()  # its socket stays in that network
        finally:
            namespaces.enter_network(self._here)

    def _plug(self, host: HostPlan, nic: NicPlan) -> None:
        key, number = (host.name, nic.name), len(self.ports)
        port = self.ports[key] = _FIRST_PORT + number
        address = neighbours.link_address(number).hex(":")
        peer = {"ifname": nic.name, "net_ns_fd": self.networks[host.name], "address": address}
        master = self._bridge(nic.switch, "")
        self._switch.link("add", ifname=f"port{number}", index=port, kind="veth", peer=peer, master=master)
        self._nics[key] = self._bring_up(host.name, nic)
        if nic.port == "up":
            self._switch.link("set", index=port, state="up")
        if nic.rate_bps is not None:
            self.set_rate(key, nic.rate_bps)

    def _unplugged(self, host: HostPlan, nic: NicPlan) -> None:
        self._hosts[host.name].link("add", ifname=nic.name, kind="bridge")
        self._bring_up(host.name, nic)

    def _bring_up(self, host: str, nic: NicPlan) -> int:
        """Give the new interface its address; return its index."""
        self.enter(host)
        try:
            index = socket.if_nametoindex(nic.name)
        finally:
            self.enter("")
        ip, _, prefix = nic.address.partition("/")
        more = {"flags": _NO_DAD} if ":" in ip else {}
        inside = self._hosts[host]
        inside.addr("add", index=index, address=ip, prefixlen=int(prefix), **more)
        inside.link("set", index=index, state="up")
        return index

    def _bridge(self, switch: str, part: str) -> int:
        """Return the bridge that is ``part`` ('' is all) of the switch."""
        if (switch, part) not in self._bridges:
            name = f"switch{len(self._bridges)}"
            self._switch.link("add", ifname=name, kind="bridge")
            index = self._bridges[switch, part] = socket.if_nametoindex(name)
            self._switch.link("set", index=index, state="up")
        return self._bridges[switch, part]

    def _introduce_all(self) -> None:
        """Tell every host its neighbours in all switches."""
        addresses = {key: nic.ip for key, nic in self._plugged()}
        links = {key: neighbours.link_address(port - _FIRST_PORT) for key, port in self.ports.items()}
        for host in self.network.hosts:
            self.enter(host.name)
            try:
                neighbours.tell(
                    (self._nics[host.name, nic], addresses[other, nic], links[other, nic])
                    for other, nic in self.ports
                    if other != host.name and (host.name, nic) in self.ports
                )
            finally:
                self.enter("")

    def _plugged(self) -> Iterator[tuple[Port, NicPlan]]:
        for host in self.network.hosts:
            yield from (((host.name, nic.name), nic) for nic in host.nics if nic.switch)

    def _wait_until_up(self) -> None:
        """The kernel lets links carry in its own time, and until then drops what is sent without a word."""
        until = time.monotonic() + _UP_LIMIT_S
        for host in self.network.hosts:
            mine = [nic.name for nic in host.nics if nic.switch and nic.port == "up"]
            self.enter(host.name)
            try:
                _wait_for_links(mine, until)
            finally:
                self.enter("")
        here = [f"port{self.ports[key] - _FIRST_PORT}" for key, nic in self._plugged() if nic.port == "up"]
        _wait_for_links(here, until)
        if here:  # a change takes the kernel's lock: what it has begun to do and to tell is done after that
            self._switch.link("set", index=next(iter(self._bridges.values())), state="up")

    # ------------------------------------------------------------ changing

    def ports_of(self, host: str, nic: str = "") -> list[Port]:
        """Return the ports into which ``host`` is plugged, all or that of ``nic``."""
        return [port for port in self.ports if port[0] == host and nic in ("", port[1])]

    def plan_of(self, port: Port) -> NicPlan | None:
        """Return the interface at that port, as it was declared."""
        host = self.network.host(port[0])
        return None if host is None else host.nic(port[1])

    def running(self) -> dict[Port, bool]:
        """Return of each port whether its link carries now."""
        flags = {link["index"]: link["flags"] for link in self._switch.link("dump")}
        return {port: bool(flags.get(index, 0) & RUNNING) for port, index in self.ports.items()}

    def set_port(self, port: Port, up: bool) -> None:
        self._switch.link("set", index=self.ports[port], state="up" if up else "down")

    def set_rate(self, port: Port, rate_bps: float | None) -> None:
        """Let the link carry so much, in each direction; None takes the limit away."""
        ends = ((self._switch, self.ports[port]), (self._hosts[port[0]], self._nics[port]))
        for route, index in ends:
            if rate_bps is None:
                route.tc("del", index=index, root=True)
                continue
            rate = max(1, int(rate_bps / 8))
            burst = max(int(rate * _BURST_S), _BURST_BYTES)
            limit = max(int(rate * _QUEUE_S), _QUEUE_BYTES)
            route.tc("replace", "tbf", index, rate=rate, burst=burst, limit=limit)

    def declared_rate(self, port: Port) -> float | None:
        nic = self.plan_of(port)
        return None if nic is None else nic.rate_bps

    def move(self, port: Port, part: str) -> None:
        """Plug the port into ``part`` of its switch; the link does not go down by that."""
        self._switch.link("set", index=self.ports[port], master=self._bridge(port[1], part))

    def drop_from(self, host: str, sender: str, on: bool) -> None:
        """Let ``host`` drop, without a word, all that comes from the addresses of ``sender``."""
        self._prepare_rules(host)
        found = self.network.host(sender)
        for nic in found.nics if found is not None else ():
            if nic.switch:
                self._rule(host, nic.ip, on)

    def _rule(self, host: str, sender: str, on: bool) -> None:
        family, length = (socket.AF_INET6, 128) if ":" in sender else (socket.AF_INET, 32)
        self._hosts[host].rule(
            "add" if on else "del", family=family, priority=_DROP_PRIORITY, src=sender, src_len=length,
            action="blackhole",
        )  # fmt: skip

    def let_through(self, host: str, port: int, on: bool) -> None:
        """Let ``host`` take TCP for and from ``port``, whatever :meth:`only_let_through` says."""
        self._prepare_rules(host)
        for family in FAMILIES:
            for side in ("sport_range", "dport_range"):
                self._hosts[host].rule(
                    "add" if on else "del", family=family, priority=_ALLOW_PRIORITY, ip_proto=_TCP,
                    table=_LOCAL_TABLE, action="to_tbl", **{side: f"{port}:{port}"},
                )  # fmt: skip

    def only_let_through(self, host: str, on: bool) -> None:
        """Let ``host`` drop all other TCP that comes in by its interfaces."""
        self._prepare_rules(host)
        for family in FAMILIES:
            for _, nic in self.ports_of(host):
                self._hosts[host].rule(
                    "add" if on else "del", family=family, priority=_DROP_PRIORITY, iifname=nic,
                    ip_proto=_TCP, action="blackhole",
                )  # fmt: skip

    def _prepare_rules(self, host: str) -> None:
        """The kernel's first rule delivers what is for this host: it has to come after those that drop."""
        if host in self._asked_for_rules:
            return
        self._asked_for_rules.add(host)
        for family in FAMILIES:
            rule = {"family": family, "table": _LOCAL_TABLE, "action": "to_tbl"}
            self._hosts[host].rule("add", priority=_LOCAL_PRIORITY, **rule)
            self._hosts[host].rule("del", priority=0, family=family, table=_LOCAL_TABLE)


def _wait_for_links(names: list[str], until: float) -> None:
    """Wait for the links of these interfaces of the network that this process is in. Raises TimeoutError."""
    if not names:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for name in names:
            request = _IFREQ.pack(name.encode(), 0)
            while not _IFREQ.unpack(fcntl.ioctl(asking, _SIOCGIFFLAGS, request))[1] & RUNNING:
                if time.monotonic() > until:
                    raise TimeoutError(f"the link of {name} did not come up within {_UP_LIMIT_S:g} s")
                time.sleep(_LOOK_S)  # there is nothing to wait for on both sides of a link
