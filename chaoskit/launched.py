"""What a launcher hands to each process of an arm: its environment, as torchrun sets it, and its host.

Pure. Faults with the trigger ``launch`` edit that environment here.
"""

from __future__ import annotations

from chaoskit.faults import RankFault
from chaoskit.gpu.sharing import Placement, variables
from chaoskit.model import Injection, RankPlan, Topology
from chaoskit.network import STORE_HOST, Network, host_of_each_rank

ADDRESS = "127.0.0.1"


def processes(
    topology: Topology,
    injections: tuple[Injection, ...],
    port: int,
    network: Network | None,
    placement: Placement | None = None,
    given: frozenset[str] = frozenset(),
) -> tuple[RankPlan, ...]:
    """Return the processes to start, in order. ``port`` is MASTER_PORT.

    ``placement`` is how they are put on GPUs, ``given`` are the variables of the arm's profile.
    """
    hosts = ("",) * topology.ranks
    if network is not None:
        hosts = host_of_each_rank(topology.ranks, topology.hosts)
    address = network.store if network is not None else ADDRESS
    return tuple(
        _process(
            slot,
            environment(slot, hosts, address, port) | _of_gpus(placement, slot, given),
            injections,
            hosts[slot],
        )
        for slot in range(topology.ranks)
    )


def _of_gpus(placement: Placement | None, slot: int, given: frozenset[str]) -> dict[str, str]:
    return {} if placement is None else dict(variables(placement, slot, given))


def environment(slot: int, hosts: tuple[str, ...], address: str, port: int) -> dict[str, str]:
    """Return what torchrun hands to the process ``slot``; ``hosts`` has the host of each process in order."""
    order = list(dict.fromkeys(hosts))
    local = [s for s, host in enumerate(hosts) if host == hosts[slot]]
    told = {
        "GROUP_RANK": str(order.index(hosts[slot])),
        "GROUP_WORLD_SIZE": str(len(order)),
        "LOCAL_RANK": str(local.index(slot)),
        "LOCAL_WORLD_SIZE": str(len(local)),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "RANK": str(slot),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(slot),
        "ROLE_WORLD_SIZE": str(len(hosts)),
        "WORLD_SIZE": str(len(hosts)),
    }
    if address == STORE_HOST:  # as torchrun's own store: no rank hosts one
        told |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    return told


def _process(slot: int, env: dict[str, str], injections: tuple[Injection, ...], host: str) -> RankPlan:
    edited = _Edited(env)
    for injection in injections:
        fault = injection.fault
        if injection.when.kind == "launch" and isinstance(fault, RankFault) and fault.targets(slot):
            fault.environment(edited)
    unset = tuple(sorted(name for name in edited.taken if name not in edited))
    return RankPlan(slot, tuple(sorted(edited.items())), unset, host)


class _Edited(dict[str, str]):
    """An environment that remembers what was taken out, whether it was there or not."""

    def __init__(self, env: dict[str, str]) -> None:
        super().__init__(env)
        self.taken: set[str] = set()

    def pop(self, name: str, *default: str) -> str:  # type: ignore[override]
        self.taken.add(name)
        found: str = super().pop(name, *default)
        return found

    def __delitem__(self, name: str) -> None:
        self.taken.add(name)
        super().__delitem__(name)
