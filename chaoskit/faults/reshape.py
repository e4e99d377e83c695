"""Tensors of another size than the peers have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from chaoskit.faults.family import Moment, Proceed, RankFault
from chaoskit.model import RankSet

if TYPE_CHECKING:
    import torch
    from torch.distributed import Work

    from chaoskit.intercept import Call


@dataclass(frozen=True, slots=True)
class Reshape(RankFault):
    """The rank calls the operation with another number of elements, as with a last batch that was not
    padded, or a modality that only some ranks have. gloo may abort one rank, time out on another, and let
    a third go on with half a result. Seen in NVIDIA/nccl#1417, pytorch/pytorch#97191,
    modelscope/ms-swift#9443.

    Give `numel`, the new number of elements of the first tensor, or `factor`; the others of the call change
    in proportion. A smaller one is a part of the script's own tensor; a larger one is a copy, filled up with
    zeros.

    Example:

        faults:
          - reshape: {rank: 1, factor: 0.5}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "reshape"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    phases: ClassVar[frozenset[str]] = frozenset({"before"})
    replaces_call: ClassVar[bool] = True
    needs_tensors: ClassVar[bool] = True

    rank: RankSet
    numel: int | None = None
    factor: float | None = None

    def __post_init__(self) -> None:
        if (self.numel is None) == (self.factor is None):
            raise ValueError("give one of numel and factor")
        if self.numel is not None and self.numel < 0:
            raise ValueError(f"numel must be 0 or more, is {self.numel}")
        if self.factor is not None and (self.factor < 0 or self.factor == 1):
            raise ValueError(f"factor must be 0 or more and not 1, is {self.factor:g}")

    def around(self, here: Moment, call: Call, proceed: Proceed) -> Work | None:
        factor = self.factor
        if factor is None:
            factor = (self.numel or 0) / max(1, call.tensors[0].numel()) if call.tensors else 1.0
        call.args = tuple(_resized(a, factor) for a in call.args)
        call.kwargs = {k: _resized(v, factor) for k, v in call.kwargs.items()}
        work: Work | None = proceed()
        return work


def _resized(value: Any, factor: float) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return _resized_tensor(value, round(value.numel() * factor))
    if isinstance(value, (list, tuple)):
        return type(value)(_resized(item, factor) for item in value)
    return value


def _resized_tensor(tensor: torch.Tensor, numel: int) -> torch.Tensor:
    flat = tensor.detach().reshape(-1)
    if numel <= flat.numel():
        return flat[:numel]
    larger = flat.new_zeros(numel)
    larger[: flat.numel()] = flat
    return larger
