"""The topology of a scenario: virtual hosts and their interfaces, from a file and back."""

from __future__ import annotations

from typing import Any, Literal, cast

from chaoskit.model import Backend, GpuSharing, Topology
from chaoskit.network import Nic
from chaoskit.rates import rate_text
from chaoskit.scenario.schema import TopologyFile


def topology_of(found: TopologyFile) -> Topology:
    """Return the topology of a file that could be read."""
    nics = tuple(
        Nic(name, one.subnet, one.rate, one.same_address, cast(Literal["up", "down"], one.port), one.on)
        for name, one in found.nics.items()
    )
    sharing = cast(GpuSharing, found.gpu_sharing)
    return Topology(found.ranks, cast(Backend, found.backend), found.hosts, nics, found.own_name, sharing)


def hosts_are_known(given: object, found: TopologyFile) -> bool:
    """Return whether what was salvaged has the hosts and interfaces that a broken file gives."""
    if not isinstance(given, dict):
        return False
    nics = given.get("nics", {})
    same_names = isinstance(nics, dict) and list(nics) == list(found.nics)
    return bool(given.get("hosts", 1) == found.hosts and same_names)


def written(topology: Topology) -> dict[str, Any]:
    """Return the topology as a file has it, without what is as it is by default."""
    entry: dict[str, Any] = {"ranks": topology.ranks, "backend": topology.backend}
    entry |= {"hosts": topology.hosts} if topology.hosts != 1 else {}
    if topology.nics:
        entry["nics"] = {nic.name: _nic(nic) for nic in topology.nics}
    entry |= {"own_name": topology.own_name} if topology.own_name else {}
    return entry | ({"gpu_sharing": topology.gpu_sharing} if topology.gpu_sharing != "auto" else {})


def _nic(nic: Nic) -> dict[str, Any]:
    entry: dict[str, Any] = {"subnet": nic.subnet} if nic.subnet else {}
    entry |= {"rate": rate_text(nic.rate_bps)} if nic.rate_bps is not None else {}
    entry |= {"same_address": nic.same_address} if nic.same_address else {}
    entry |= {"port": nic.port} if nic.port != "up" else {}
    return entry | ({"on": list(nic.on)} if nic.on else {})
