"""Tensors of another type than the peers have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from chaoskit.faults.family import Moment, Proceed, RankFault
from chaoskit.model import RankSet

if TYPE_CHECKING:
    import torch
    from torch.distributed import Work

    from chaoskit.intercept import Call

_DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8")


@dataclass(frozen=True, slots=True)
class Cast(RankFault):
    """The rank calls the operation with another dtype than its peers. Where the sizes in bytes agree (float32
    against int32) nobody notices: all ranks go on, and exit 0, with garbage. Seen in bghira/SimpleTuner#2712.

    The call is waited for at once, and the result converted back into the script's own tensors.

    Example:

        faults:
          - cast: {rank: 1, dtype: int32}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "cast"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    phases: ClassVar[frozenset[str]] = frozenset({"before"})
    replaces_call: ClassVar[bool] = True
    needs_tensors: ClassVar[bool] = True

    rank: RankSet
    dtype: str = "int32"

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, is {self.dtype!r}")

    def around(self, here: Moment, call: Call, proceed: Proceed) -> Work | None:
        import torch

        own = call.tensors
        dtype: torch.dtype = getattr(torch, self.dtype)
        call.args = tuple(_converted(a, dtype) for a in call.args)
        call.kwargs = {k: _converted(v, dtype) for k, v in call.kwargs.items()}
        work: Work | None = proceed()
        if work is not None:
            work.wait()
        for mine, cast in zip(own, call.tensors, strict=True):
            mine.detach().copy_(cast)
        return work


def _converted(value: Any, dtype: torch.dtype) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().to(dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(_converted(item, dtype) for item in value)
    return value
