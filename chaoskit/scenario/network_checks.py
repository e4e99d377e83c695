"""What is wrong with virtual hosts and their interfaces, and with faults that mean them.

Works on the values, as :mod:`chaoskit.scenario.checks` does, which asks it.
"""

from __future__ import annotations

import ipaddress
import itertools
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from chaoskit.model import Injection, Topology
from chaoskit.network import (
    HOSTS_MAX,
    INSIDE,
    NICS_MAX,
    STORE_HOST,
    Nic,
    Subnet,
    default_subnet,
    host_names,
    host_of_each_rank,
    subnet_of,
    usable,
)
from chaoskit.rates import HINT as RATE_HINT
from chaoskit.rates import RATE_MAX_BPS, RATE_MIN_BPS, rate_text
from chaoskit.scenario.finding import Finding
from chaoskit.scenario.source import KeyPath
from chaoskit.scenario.values import did_you_mean, shown

NAME_BYTES_MAX = 15
"""IFNAMSIZ without the byte that ends it."""
_NO_NAMES = {".", "..", "all", "default"}
"""What the kernel does not take, or keeps for settings that hold for all interfaces."""
_NAMED_MAX = 8


def topology_findings(topology: Topology, hosts_known: bool = True) -> Iterator[Finding]:
    """Yield what is wrong with the hosts; without ``hosts_known`` nothing that depends on their number."""
    if not 1 <= topology.hosts <= HOSTS_MAX:
        message = f"topology.hosts must be from 1 to {HOSTS_MAX}, is {topology.hosts}"
        yield Finding(("topology", "hosts"), message)
        return
    if hosts_known and topology.is_virtual:
        yield from _enough_ranks(topology)
    if len(topology.nics) > NICS_MAX:
        message = f"topology.nics has {len(topology.nics)} interfaces; a host has at most {NICS_MAX}"
        yield Finding(("topology", "nics"), message)
        return
    seen: set[str] = set()
    for nic in topology.nics:
        place = _Place(("topology", "nics", nic.name), f"topology.nics.{nic.name}")
        yield from _name(nic.name, seen, place)
        yield from _rate_and_port(nic, place)
        if hosts_known:
            yield from _on(nic, topology, place)
        seen.add(nic.name)
    yield from _subnets(topology, hosts_known)
    if hosts_known:
        yield from _reachable(topology)
    yield from _own_name(topology, hosts_known)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something is in the file, as a path and in words."""

    path: KeyPath
    where: str

    def says(self, key: str, message: str, hint: str = "") -> Finding:
        return Finding((*self.path, key) if key else self.path, f"{self.where}{message}", hint)


def _enough_ranks(topology: Topology) -> Iterator[Finding]:
    hosts, ranks = topology.hosts, topology.ranks
    if hosts > ranks:
        ours = f"{ranks} rank" if ranks == 1 else f"{ranks} ranks"
        hint = f"set topology.hosts to {ranks} or less, or topology.ranks to {hosts} or more"
        yield Finding(("topology", "hosts"), f"topology: {hosts} hosts for {ours}, and each needs one", hint)


# ---------------------------------------------------------------- one interface


def _name(name: str, seen: Collection[str], place: _Place) -> Iterator[Finding]:
    if name in seen:
        yield place.says("", " is there twice")
    if wrong := name_problem(name):
        hint = f"use up to {NAME_BYTES_MAX} letters and digits, such as eth1 or docker0"
        if name == INSIDE:
            hint = "remove it: it needs no declaration"
        yield Finding(place.path, f"topology.nics: {wrong}", hint)


def name_problem(name: str) -> str:
    """Return why no interface that a backend can be told to use is called ``name``; '' where one can."""
    if name == INSIDE:
        return "lo is there on every host"
    size = len(name.encode(errors="replace"))
    if not 1 <= size <= NAME_BYTES_MAX:
        return f"the name {shown(name)} has {size} bytes; Linux takes 1 to {NAME_BYTES_MAX}"
    if name in _NO_NAMES:
        return f"Linux takes no interface that is called {name}"
    if not name.isprintable() or any(c.isspace() or c in "/:%" for c in name):
        return f"the name {shown(name)} holds what Linux does not take (spaces, '/', ':', '%')"
    if any(c in "'\"\\,=" for c in name) or name[0] in "^-":
        return f"the name {shown(name)} means something else in GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME"
    return ""


def _rate_and_port(nic: Nic, place: _Place) -> Iterator[Finding]:
    if nic.same_address:
        given = {"subnet": bool(nic.subnet), "rate": nic.rate_bps is not None, "port": nic.port != "up"}
        for key in (key for key, there in given.items() if there):
            message = f": `{key}` has no meaning beside `same_address`, which is in no switch"
            yield place.says(key, message, "remove it, or same_address")
    rate = nic.rate_bps
    if rate is not None and not (math.isfinite(rate) and RATE_MIN_BPS <= rate <= RATE_MAX_BPS):
        limits = f"between {rate_text(RATE_MIN_BPS)} and {rate_text(RATE_MAX_BPS)}"
        yield place.says("rate", f".rate must be {limits}, is {rate:g} bits per second", RATE_HINT)
    if nic.port not in ("up", "down"):
        yield place.says("port", f".port must be up or down, is {shown(nic.port)}")


def _on(nic: Nic, topology: Topology, place: _Place) -> Iterator[Finding]:
    names = host_names(topology.hosts)
    for name in dict.fromkeys(nic.on):
        if name not in names:
            yield place.says("on", f".on: there is no host {shown(name)}", _hosts_hint(name, names))
    if len(set(nic.on)) != len(nic.on):
        yield place.says("on", ".on names a host twice")


def _hosts_hint(name: str, names: Collection[str]) -> str:
    if len(names) > _NAMED_MAX:
        first, last = next(iter(names)), [*names][-1]
        return f"the hosts are {first} to {last}"
    return did_you_mean(name, names)


# ---------------------------------------------------------------- addresses


def _subnets(topology: Topology, hosts_known: bool) -> Iterator[Finding]:
    """Networks that cannot be read, are too small, or lie in one another."""
    hosts = topology.hosts if hosts_known else 1
    found: list[tuple[Nic, _Place, str, Subnet]] = []
    for number, nic in enumerate(topology.nics):
        place = _Place(("topology", "nics", nic.name), f"topology.nics.{nic.name}")
        key = "same_address" if nic.same_address else "subnet"
        try:
            subnet = _same_address(nic.same_address) if nic.same_address else _declared(nic, number)
        except _Unusable as wrong:
            yield place.says(key, f".{key} {wrong}", wrong.hint)
            continue
        found.append((nic, place, key, subnet))
        need = hosts + (hosts > 1)
        if not nic.same_address and usable(subnet) < need:
            for_whom = f"{hosts} hosts and one for the store" if hosts > 1 else "one host"
            room = usable(subnet)
            message = f".subnet {nic.subnet} has {room} usable addresses, too few for {for_whom}"
            yield place.says(key, message, f"write {_larger(subnet, need)}")
    for (first, _, _, one), (_, place, key, other) in itertools.combinations(found, 2):
        if one.version == other.version and one.overlaps(other):
            message = f".{key}: {other} overlaps {one}, the network of {first.name}"
            yield place.says(key, message, "give each interface a network of its own")


class _Unusable(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def _declared(nic: Nic, place: int) -> Subnet:
    text = nic.subnet
    try:
        meant = ipaddress.ip_interface(text or default_subnet(place)).network
    except ValueError:
        hint = "write 10.1.0.0/24 or fd00:1::/64"
        raise _Unusable(f"must be a network, is {shown(text)}", hint) from None
    if text and "/" not in text:
        raise _Unusable(f"has no prefix length: {shown(text)}", _example(text, 24, 64))
    try:
        subnet = subnet_of(nic, place)
    except ValueError:
        raise _Unusable(f"{text} has host bits set", f"write {meant}") from None
    _refuse_special(subnet)
    return subnet


def _same_address(text: str) -> Subnet:
    hint = "write 172.17.0.1/16"
    try:
        address = ipaddress.ip_interface(text)
    except ValueError:
        raise _Unusable(f"must be an address with its prefix length, is {shown(text)}", hint) from None
    if "/" not in text:
        raise _Unusable(f"has no prefix length: {shown(text)}", _example(text, 16, 64))
    _refuse_special(address.network)
    return address.network


def _example(text: str, v4: int, v6: int) -> str:
    return f"write {text}/{v6 if ':' in text else v4}"


_SPECIAL = (
    ("127.0.0.0/8", "the loopback addresses"),
    ("::1/128", "the loopback address"),
    ("0.0.0.0/8", "addresses that stand for no host"),
    ("224.0.0.0/4", "multicast addresses"),
    ("ff00::/8", "multicast addresses"),
    ("fe80::/10", "addresses that every link has"),
    ("255.255.255.255/32", "the broadcast address"),
)


def _refuse_special(subnet: Subnet) -> None:
    for text, what in _SPECIAL:
        special = ipaddress.ip_network(text)
        if special.version == subnet.version and special.overlaps(subnet):
            raise _Unusable(f"{subnet} holds {what}", "write 10.1.0.0/24 or fd00:1::/64")


def _larger(subnet: Subnet, need: int) -> str:
    """Return a network at the same place that has room."""
    prefix = subnet.prefixlen
    while prefix > 0 and usable(subnet) < need:
        prefix -= 1
        subnet = subnet.supernet()
    return str(subnet)


def _reachable(topology: Topology) -> Iterator[Finding]:
    """Hosts that are in no switch: nobody can reach them, and they know no name, not even their own."""
    if not topology.nics:
        return
    switched = [nic for nic in topology.nics if not nic.same_address]
    alone = [h for h in host_names(topology.hosts) if not any(not n.on or h in n.on for n in switched)]
    if alone:
        named = ", ".join(alone[:_NAMED_MAX]) + (", …" if len(alone) > _NAMED_MAX else "")
        message = f"topology.nics: {named} {'has' if len(alone) == 1 else 'have'} no interface in a switch"
        yield Finding(("topology", "nics"), message, "add one without same_address: eth0: {}")


def _own_name(topology: Topology, hosts_known: bool) -> Iterator[Finding]:
    own = topology.own_name
    if not own:
        return
    path: KeyPath = ("topology", "own_name")
    names = [nic.name for nic in topology.nics] or ["eth0"]
    if own in names:
        nic = next((n for n in topology.nics if n.name == own), None)
        if hosts_known and nic is not None and nic.on:
            lacking = [h for h in host_names(topology.hosts) if h not in nic.on]
            if lacking:
                message = f"topology.own_name: {own} is not on {', '.join(lacking[:_NAMED_MAX])}"
                yield Finding(path, message, "choose an interface that every host has, or an address")
        return
    try:
        ipaddress.ip_address(own)
    except ValueError:
        hint = "write 127.0.0.1" if own == INSIDE else did_you_mean(own, [*names, "127.0.1.1"])
        yield Finding(path, f"topology.own_name: {shown(own)} is no interface and no address", hint)


# ---------------------------------------------------------------- faults


def fault_findings(injection: Injection, topology: Topology, path: KeyPath, where: str) -> Iterator[Finding]:
    """Yield hosts and interfaces that a fault means and that are not there. ``path`` is that of the fault."""
    fault = injection.fault
    if not getattr(fault, "needs_hosts", False):
        return
    place = _Place(path, f"{where}.{fault.name}")
    if not topology.is_virtual:
        yield place.says("", " needs virtual hosts", "add hosts to the topology: {ranks: 4, hosts: 2}")
        return
    if not 1 <= topology.hosts <= HOSTS_MAX:
        return
    names = (*host_names(topology.hosts), STORE_HOST)
    host = str(getattr(fault, "host", ""))
    if host and host not in names:
        yield place.says("host", f": there is no host {shown(host)}", _hosts_hint(host, names))
    elif nic := str(getattr(fault, "nic", "")):
        yield from _nic_of_fault(injection, nic, host, topology, place)
    if fault.name == "partition":
        yield from _apart(tuple(getattr(fault, "apart", ())), topology, place)


def _nic_of_fault(
    injection: Injection, nic: str, host: str, topology: Topology, place: _Place
) -> Iterator[Finding]:
    declared = topology.nics or (Nic(),)
    found = next((n for n in declared if n.name == nic), None)
    if found is None:
        hint = did_you_mean(nic, [n.name for n in declared])
        yield place.says("nic", f": there is no interface {shown(nic)}", hint)
    elif found.same_address:
        yield place.says("nic", f": {nic} is in no switch (same_address), so it has no link")
    elif found.on and host != STORE_HOST:
        meant = {host} if host else _hosts_of(injection, topology)
        for lacking in sorted(meant - set(found.on)):
            yield place.says("nic", f": {lacking} has no {nic}", f"it is on {', '.join(found.on)}")


def _hosts_of(injection: Injection, topology: Topology) -> set[str]:
    if topology.hosts > topology.ranks:
        return set()
    hosts = host_of_each_rank(topology.ranks, topology.hosts)
    rank = injection.fault.rank
    return set(hosts) if rank == "all" else {hosts[r] for r in rank if 0 <= r < len(hosts)}


def _apart(apart: tuple[str, ...], topology: Topology, place: _Place) -> Iterator[Finding]:
    names = host_names(topology.hosts)
    if len(names) < 2:
        yield place.says("", " needs two hosts or more", "set topology.hosts to 2 or more")
        return
    for host in dict.fromkeys(apart):
        if host not in (*names, STORE_HOST):
            yield place.says("apart", f".apart: there is no host {shown(host)}", _hosts_hint(host, names))
    if set(names) <= set(apart):
        message = ".apart names every host, so nobody is left on the other side"
        yield place.says("apart", message, "leave at least one host out")
