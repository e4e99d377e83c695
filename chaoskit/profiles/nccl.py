"""The variables of NCCL itself, by its own release. Data only; the list is ``nccl_names.txt`` beside this
file."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaoskit.profiles.variable import Kind, Version

OLDEST: Final[Version] = (2, 18)
NEWEST: Final[Version] = (2, 30)
"""The releases that the list was read out of."""

OF_OTHERS: Final = (
    "NCCL_FASTRAK_", "NCCL_GPUDIRECTTCP", "NCCL_TESTS_", "NCCL_PROFILER_", "NCCL_INSPECTOR_",
    "NCCL_SHIMNET_", "NCCL_TUNER_", "NCCL_EP_", "NCCL_HOME", "NCCL_ROOT", "NCCL_VERSION", "NCCL_INCLUDE",
    "NCCL_LIB", "NCCL_DIR",
)  # fmt: skip
"""How names begin that belong to plug-ins, builds and container images: nothing is said of them."""

OF_PLUGINS: Final = frozenset(
    f"NCCL_{name}"
    for name in (
        "IBEXT_DISABLE", "IB_IS_GLOBAL", "PLUGIN_P2P", "SHARP_COLL_TRACE", "SHARP_DISABLE",
        "SHARP_DISABLE_ALLGATHER", "SHARP_DISABLE_REDUCE_SCATTER", "SHARP_GROUP_SIZE_THRESH",
        "SHARP_MAX_COMMS", "SHARP_V3_DATATYPES", "UCX_CUDA_DISABLE", "UCX_DISABLE", "UCX_RMA_DISABLE",
        "UCX_TLS", "UCX_ZCOPY_THRESH",
    )
)  # fmt: skip
"""What nccl-rdma-sharp-plugins reads beside NCCL's own names (Mellanox/nccl-rdma-sharp-plugins, src/). Those
of aws-ofi-nccl begin with OFI_NCCL_, those of FasTrak and TCPX with the prefixes above."""

_ALGORITHMS: Final = (
    "Tree", "Ring", "CollNet", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT",
)  # fmt: skip
"""ncclAlgoStr and ncclProtoStr in src/init.cc, of all releases together."""
_LEVELS: Final = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
"""topoPathTypeStr in src/graph/topo.cc up to PATH_SYS, of all releases together (ncclGetLevel, paths.cc)."""
_SUBSYSTEMS: Final = (
    "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL", "PROXY",
    "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL",
)  # fmt: skip
"""src/debug.cc, of all releases together."""
_KINDS: Final[dict[str, tuple[Kind, tuple[str, ...]]]] = {
    "NCCL_ALGO": ("nccl-functions", _ALGORITHMS),
    "NCCL_DEBUG": ("nccl-word", ("VERSION", "WARN", "INFO", "ABORT", "TRACE")),
    "NCCL_DEBUG_SUBSYS": ("nccl-list", _SUBSYSTEMS),
    "NCCL_NET_GDR_LEVEL": ("nccl-level", _LEVELS),
    "NCCL_P2P_LEVEL": ("nccl-level", _LEVELS),
    "NCCL_PROTO": ("nccl-functions", ("LL", "LL128", "Simple")),
    "NCCL_SOCKET_FAMILY": ("nccl-word", ("AF_INET", "AF_INET6")),
    "NCCL_SOCKET_IFNAME": ("nccl-interfaces", ()),
}
"""src/debug.cc, src/misc/socket.cc at v2.28.9-1 and v2.30.7-1; the user guide's env.rst."""


@dataclass(frozen=True, slots=True)
class NcclVariable:
    """One variable of NCCL. ``since``, ``until``: the first NCCL that reads it, and the first that no longer
    does; None: beyond the releases that were looked at."""

    name: str
    kind: Kind
    words: tuple[str, ...] = ()
    since: Version | None = None
    until: Version | None = None


@functools.cache
def nccl_variables() -> dict[str, NcclVariable]:
    """Return the variables of NCCL, by name."""
    text = Path(__file__).with_name("nccl_names.txt").read_text(encoding="ascii")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {name: _variable(name, kind, since, until) for name, kind, since, until in rows}


def _variable(name: str, kind: str, since: str, until: str) -> NcclVariable:
    found, words = _KINDS.get(name, ("nccl-int" if kind == "int" else "text", ()))
    return NcclVariable(name, found, words, _version(since), _version(until))


def _version(text: str) -> Version | None:
    major, _, minor = text.partition(".")
    return None if text == "-" else (int(major), int(minor))
