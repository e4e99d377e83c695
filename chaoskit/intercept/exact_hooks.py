"""Which communication hooks of DistributedDataParallel leave one gradient on all ranks. Changes nothing."""

from __future__ import annotations

from types import FunctionType
from typing import Final

_HOOKS: Final = "torch.distributed.algorithms.ddp_comm_hooks"
_EXACT: Final = frozenset(
    f"{_HOOKS}.{name}"
    for name in ("default_hooks", "mixed_precision_hooks", "powerSGD_hook", "quantization_hooks")
)
"""Modules of hooks after which all ranks have one gradient. Those that step an optimizer themselves do not
count: their updates are not seen."""


def is_exact(hook: object) -> bool:
    """Return whether it is one of torch's own exact ones; and so is what it wraps (fp16_compress_wrapper)."""
    if not isinstance(hook, FunctionType) or hook.__module__ not in _EXACT:
        return False
    inside = [cell.cell_contents for cell in hook.__closure__ or ()]  # where what it wraps is held
    return all(is_exact(value) for value in inside if callable(value))
