"""Puts the ranks of an arm on the GPUs that are visible here (:mod:`chaoskit.gpu.sharing` has the rules)."""

from __future__ import annotations

from collections import Counter

from chaoskit import capabilities
from chaoskit.gpu import cuda_build
from chaoskit.gpu.sharing import Placement, place
from chaoskit.model import Backend, GpuSharing, Launcher, Topology
from chaoskit.network import host_of_each_rank


def placement_of(
    topology: Topology, backend: Backend, launcher: Launcher, asked: GpuSharing | None, isolated: bool
) -> Placement | None:
    """Return how the ranks share the GPUs; None where that is nobody's business here.

    It is not where gloo talks, where a command of the user's starts the ranks (on whatever machines), or
    where NCCL cannot be had at all. ``isolated``: each arm has a network of its own. Raises CannotShare.
    """
    if backend != "nccl" or launcher == "command" or not capabilities.find("nccl").available:
        return None
    hosts = host_of_each_rank(topology.ranks, topology.hosts)
    return place(
        tuple(Counter(hosts).values()),
        capabilities.gpus(),
        asked or topology.gpu_sharing,
        cuda_build.nccl_version(),
        isolated=isolated or topology.is_virtual,
        virtual=topology.is_virtual,
    )


def supply_mib() -> int:
    """Return what each visible GPU has free at least; 0 where that is not known."""
    return min((gpu.free_mib for gpu in capabilities.gpus()), default=0)
