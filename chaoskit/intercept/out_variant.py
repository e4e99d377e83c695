"""The one collective that C++ issues past every wrapper: `_c10d_functional.all_gather_into_tensor_out`.

Code that torch.compile generates uses it. torch's hook for Python groups (PyProcessGroup) passes on
all_gather_single_coalesced but not all_gather_single, which this operator calls. May replace nothing else.
"""

from typing import Any

import torch
from torch._C._distributed_c10d import AllgatherOptions, _register_work, _resolve_process_group
from torch.distributed import ProcessGroup

from chaoskit.intercept import compiler
from chaoskit.intercept.work import Watched

_NAME = "all_gather_into_tensor_out"


def replace() -> torch.library.Library | None:
    """Issue the operator from Python instead, until `_destroy()` of what is returned."""
    if not hasattr(torch.ops._c10d_functional, _NAME):
        return None  # an older torch
    library: Any = torch.library.Library("_c10d_functional", "IMPL")  # type: ignore[no-untyped-call]
    # torch's own kernel is a composite one, so a kernel for a device goes before it without replacing it.
    for key in ("CPU", "CUDA"):
        library.impl(_NAME, _all_gather_into_tensor_out, key)
    return library  # type: ignore[no-any-return]


def _all_gather_into_tensor_out(
    input: torch.Tensor,  # noqa: A002  # the name in the schema
    group_size: int,
    group_name: Any,
    *,
    out: torch.Tensor,
) -> torch.Tensor:
    group: Any = group_name
    if not isinstance(group, ProcessGroup):
        group = _resolve_process_group(group_name)
    issue = getattr(group, "all_gather_single", None) or group._allgather_base
    work = issue(out, input, AllgatherOptions())
    if isinstance(work, Watched):
        # C++ keeps the Work but not its Python half, without which a Watched never ends: give it the inner
        # Work, and watch the future.
        work.get_future()
        work = work._inner
    if work is not None:
        _register_work(out, work)
    return out


compiler.leave_out([_all_gather_into_tensor_out.__code__])
