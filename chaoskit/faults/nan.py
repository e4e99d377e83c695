"""A value that is not a number on one rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class Nan(RankFault):
    """The rank computes NaN, as after an overflow in half precision or a bad sample. What is a nuisance on
    all ranks is a hang on one: a script that skips the step (`if loss.isnan(): continue`), or compares its
    own metric (`loss < best` is false for NaN), decides alone. Seen in pytorch/audio#3749, ai2cm/ace#850.

    At a collective the first element of each floating-point tensor that the rank brings becomes NaN; from a
    reduction every rank then gets it. At every other trigger the next output of the model becomes NaN (all
    floating-point tensors in what the outermost module returns), and its gradients with it.

    Example:

        faults:
          - nan: {rank: 2}
            when: {step: 5}
    """

    name: ClassVar[str] = "nan"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    phases: ClassVar[frozenset[str]] = frozenset({"before"})
    needs_tensors: ClassVar[bool] = True
    any_thread: ClassVar[bool] = True
    releases: ClassVar[Literal["before"]] = "before"

    rank: RankSet

    def fire(self, here: Moment) -> None:
        if here.call is None:
            _NextOutput().watch()
            return
        for tensor in here.call.tensors:
            if tensor.is_floating_point() and tensor.numel():
                tensor.detach().view(-1)[0] = float("nan")


class _NextOutput:
    """Waits for the next whole forward pass and spoils what it returns, once."""

    def __init__(self) -> None:
        self._outermost: Any = None
        self._handles: tuple[Any, ...] = ()

    def watch(self) -> None:
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self._handles = (
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end),
        )

    def _begin(self, module: Any, _: Any) -> None:
        if self._outermost is None:
            self._outermost = module

    def _end(self, module: Any, _: Any, output: Any) -> Any:
        if module is not self._outermost:
            return None
        for handle in self._handles:
            handle.remove()
        return _spoiled(output)


def _spoiled(value: Any) -> Any:
    """Return ``value`` with every floating-point tensor times NaN, so that its gradients are NaN as well."""
    import torch

    if isinstance(value, torch.Tensor):
        return value * float("nan") if value.is_floating_point() else value
    if isinstance(value, dict):
        for key in value:  # in place: a model's output is often a class of its own, with attributes
            value[key] = _spoiled(value[key])
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_spoiled, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_spoiled, value))
    return value
