"""Virtual hosts in words, for ``chaoskit show``."""

from __future__ import annotations

from collections.abc import Iterator

from chaoskit.model import Topology
from chaoskit.network import Nic, host_names, host_of_each_rank, subnet_of
from chaoskit.rates import rate_text


def topology_in_words(topology: Topology) -> Iterator[str]:
    """Yield sentences: the hosts with their ranks, then their interfaces; none for a job on this machine."""
    if not topology.is_virtual:
        return
    ranks_of: dict[str, list[int]] = {}
    for rank, host in enumerate(host_of_each_rank(topology.ranks, topology.hosts)):
        ranks_of.setdefault(host, []).append(rank)
    hosts = ", ".join(f"{name} ({_ranks(ranks)})" for name, ranks in ranks_of.items())
    count = topology.hosts
    what = "host" if count == 1 else "hosts, each"
    yield f"{count} virtual {what} with a network and a name of its own: {hosts}."
    for place, nic in enumerate(topology.nics or (Nic(),)):
        yield f"{nic.name}: {_nic(nic, place, count)}"
    if topology.own_name:
        yield f"Each host takes its own name for {topology.own_name}."


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {ranks[0]} to {ranks[-1]}" if len(ranks) > 2 else f"ranks {ranks[0]} and {ranks[1]}"


def _nic(nic: Nic, place: int, hosts: int) -> str:
    on = ", ".join(nic.on) if nic.on else "every host" if hosts > 1 else host_names(1)[0]
    if nic.same_address:
        return f"in no switch, with the same address {nic.same_address} on {on}"
    carries = f", carries {rate_text(nic.rate_bps)}" if nic.rate_bps is not None else ""
    state = "; the port of its switch is down" if nic.port == "down" else ""
    return f"in one switch, {subnet_of(nic, place)}, on {on}{carries}{state}"
