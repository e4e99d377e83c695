"""Which methods of torch's ProcessGroup are collectives, and one canonical name for each.

May not touch a process group: it only reads the class.
"""

import re

from torch.distributed import ProcessGroup

_CANONICAL = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allgather": "all_gather",
    "allgather_coalesced": "all_gather",
    "_allgather_base": "all_gather",
    "all_gather_single": "all_gather",
    "all_gather_single_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_single_coalesced": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "gather_single": "gather",  # from torch 2.14 on, as the next
    "gather_into_tensor": "gather",
    "recv_anysource": "recv",
    # Ends an NCCL batch (batch_isend_irecv, the coalescing manager); its Work stands for the whole batch.
    "_end_coalescing": "coalesced",
}

# pybind writes each signature into the docstring; the return type is what makes a method a collective.
_RETURNS_WORK = re.compile(r"->\s*\S*\bWork\s*$", re.MULTILINE)
_RETURNS_NOTHING = {"monitored_barrier"}


def op_of(method: str) -> str:
    """The canonical name of a collective; a method that this table does not know keeps its own name."""
    return _CANONICAL.get(method, method)


def collective_methods() -> dict[str, str]:
    """Every collective of the installed torch, method name to canonical name.

    Read from the class rather than listed, so that a method that a later torch adds is intercepted too.
    """
    found = {}
    for name in dir(ProcessGroup):
        doc = getattr(ProcessGroup, name).__doc__ or ""
        if _RETURNS_WORK.search(doc) or name in _RETURNS_NOTHING:
            found[name] = op_of(name)
    return found
