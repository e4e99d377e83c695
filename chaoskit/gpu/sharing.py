"""How ranks share GPUs where there are fewer GPUs than ranks, and what each rank is told for it. Pure.

NCCL refuses two ranks on one GPU of one host: "Duplicate GPU detected" before 2.30, "Multiple Ranks are using
the same GPU" from then on (src/init.cc, after its first AllGather: it compares the hash of the host and the
GPU). There are two ways round it, and they fail differently:

- *host-ids*, with every NCCL: each rank says that it is a host of its own (NCCL_HOSTID, read by getHostHash
  in src/misc/utils.cc). NCCL then takes no shared memory and no P2P between them, only its sockets, so the
  death of a peer closes a connection and can be noticed as ncclRemoteError, as between real hosts.
- *multi-rank*, NCCL 2.30 and newer: NCCL_MULTI_RANK_GPU_ENABLE=1 takes the refusal away. The ranks are on one
  host and talk by P2P and shared memory: the death of a peer shows as a timeout only, as inside a real host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from chaoskit.gpu.devices import Gpu

Way = Literal["host-ids", "multi-rank"]
Asked = Literal["auto", "host-ids", "multi-rank"]
WAYS: Final[tuple[Asked, ...]] = ("auto", "host-ids", "multi-rank")
MULTI_RANK_SINCE: Final = (2, 30)
RANK_MIB: Final = 2048
"""What a rank of a built-in workload is reckoned to take of a GPU's memory: a CUDA context, torch's and
NCCL's kernels and buffers. An assumption on the safe side: it has not been measured."""

Version = tuple[int, ...]
Variables = tuple[tuple[str, str], ...]


class CannotShare(Exception):
    """Why the ranks cannot be had on the GPUs that are here; the text is a reason to skip."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The GPUs that the ranks of one host are spread over, and how they share them (None: they need not).

    ``virtual``: the ranks are on virtual hosts, with networks of their own. ``ras``: each arm has a network
    of its own, so that NCCL's RAS service cannot meet another arm's at its port.
    """

    gpus: int
    most_on_one: int
    way: Way | None = None
    virtual: bool = False
    ras: bool = True

    @property
    def mib(self) -> int:
        """What one arm is reckoned to need of the fullest GPU."""
        return self.most_on_one * RANK_MIB

    def note(self, hosts: int, ranks: int) -> str:
        """Return the sentence for the verdict; '' where nothing is shared."""
        if self.way is None:
            return ""
        how = {
            "host-ids": "each as a host of its own (NCCL_HOSTID), over NCCL's sockets",
            "multi-rank": "by NCCL_MULTI_RANK_GPU_ENABLE=1, over P2P and shared memory",
        }[self.way]
        of = f" on {hosts} virtual hosts" if hosts > 1 else ""
        gpus = "1 GPU" if self.gpus == 1 else f"{self.gpus} GPUs"
        return f"gpu-sharing {self.way}: {ranks} ranks{of} share {gpus}, {how}"


def place(
    ranks_on_host: tuple[int, ...],
    gpus: tuple[Gpu, ...],
    asked: Asked,
    nccl: Version | None,
    *,
    isolated: bool,
    virtual: bool = False,
) -> Placement:
    """Return how ranks are put on ``gpus``; ``ranks_on_host`` has their number on each host.

    All hosts of this machine have the same GPUs, and rank ``LOCAL_RANK`` takes GPU ``LOCAL_RANK % count``.
    ``nccl`` None: its version is not known. Raises CannotShare.
    """
    if not gpus:
        raise CannotShare("no GPU is visible")
    if banned := [gpu for gpu in gpus if gpu.compute_mode == "prohibited"]:
        raise CannotShare(
            f"{_called(banned[0])} is in compute mode Prohibited (to change it: nvidia-smi -c 0)"
        )
    count = len(gpus)
    most = sum(_most_on_one(ranks, count) for ranks in ranks_on_host)
    if most > 1 and (alone := [gpu for gpu in gpus if gpu.compute_mode == "exclusive"]):
        raise CannotShare(
            f"{_called(alone[0])} is in an exclusive compute mode, and {sum(ranks_on_host)} ranks would "
            f"share {count} (to change it: nvidia-smi -c 0)"
        )
    # Ranks on different virtual hosts differ in their host's name already, and NCCL lets them share.
    doubled = max(_most_on_one(ranks, count) for ranks in ranks_on_host) > 1
    return Placement(count, most, _way(asked, nccl) if doubled else None, virtual, isolated)


def _way(asked: Asked, nccl: Version | None) -> Way:
    if asked != "multi-rank":
        return "host-ids"
    if nccl is None:
        raise CannotShare(
            "gpu-sharing multi-rank needs NCCL 2.30 or newer, and the version that is here could not be "
            "found out (use host-ids)"
        )
    if nccl[:2] < MULTI_RANK_SINCE:
        here = ".".join(map(str, nccl))
        raise CannotShare(
            f"gpu-sharing multi-rank needs NCCL 2.30 or newer, here is {here} (use host-ids, or newer torch)"
        )
    return "multi-rank"


def variables(placement: Placement, slot: int, given: frozenset[str] = frozenset()) -> Variables:
    """Return what the process ``slot`` is told. ``given`` are the variables of the arm's profile.

    A profile's own choice of an interface or of RAS stays: it works here as well.
    """
    told: dict[str, str] = {}
    if placement.way == "multi-rank":
        told["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
    if placement.way == "host-ids":
        told["NCCL_HOSTID"] = host_id(slot)
        # Ranks with different host ids on one NVLink fabric would be taken for a multi-node NVLink domain.
        told["NCCL_MNNVL_ENABLE"] = "0"
    if placement.way == "host-ids" or placement.virtual:
        # Not by InfiniBand, which would pass by the virtual hosts' network and every fault in it.
        told |= {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"}
    if placement.way == "host-ids" and not placement.virtual:
        told["NCCL_SOCKET_IFNAME"] = "lo"
    if not placement.ras:
        told["NCCL_RAS_ENABLE"] = "0"
    kept = {"NCCL_SOCKET_IFNAME", "NCCL_RAS_ENABLE", "NCCL_RAS_ADDR"} & given
    return tuple(sorted((name, value) for name, value in told.items() if name not in kept))


def overridden(placement: Placement, profile: Variables) -> tuple[str, ...]:
    """Return the variables of a profile that cannot have their effect where ranks share a GPU."""
    told = dict(variables(placement, 0, frozenset(name for name, _ in profile)))
    return tuple(f"{n}={v}" for n, v in profile if n in told and (n == "NCCL_HOSTID" or told[n] != v))


OURS: Final = frozenset(
    {"NCCL_HOSTID", "NCCL_MNNVL_ENABLE", "NCCL_NET", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME"}
    | {"NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_RAS_ENABLE"}
)
"""All names that :func:`variables` can give a rank."""


def host_id(slot: int) -> str:
    """Return what the process ``slot`` says as its host."""
    return f"chaoskit-{slot}"


def _most_on_one(ranks: int, gpus: int) -> int:
    return -(-ranks // gpus)


def _called(gpu: Gpu) -> str:
    return f"GPU {gpu.index}" + (f" ({gpu.name})" if gpu.name else "")
