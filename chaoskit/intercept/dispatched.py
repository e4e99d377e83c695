"""Collectives that a program issues by torch's dispatcher, as `torch.ops.c10d.allreduce_(tensors, box, …)`.

`box` is what `group.boxed()` gives. Graphs that make_fx records consist of such calls, and they name the
inner group, which issued what was recorded. C++ takes them to the backend without asking the group, so they
would pass every listener.

Replaced is what Python calls when it calls these operators, not their kernels: the operators stay the same
objects, and a call from C++ costs nothing more. May not touch a call that belongs to a collective which the
listeners see already; a dispatch mode issues those once more from Python.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
from torch._C import _distributed_c10d
from torch.distributed import ProcessGroup, ReduceOp

from chaoskit.intercept import compiler
from chaoskit.intercept import group as groups

_OTHERWISE_NAMED = {"recv_any_source": "recv_anysource"}
# The arguments of an operator that the group's method takes in an options object, and their names there.
_IN_OPTIONS = {
    "root_rank": "rootRank",
    "root_tensor": "rootTensor",
    "device_ids": "device_ids",
}


@dataclass(frozen=True, slots=True)
class _Operator:
    """One operator of torch.ops.c10d, and the method of ProcessGroup that does the same."""

    method: str
    arguments: tuple[str, ...]
    defaults: dict[str, Any]
    returns_first: bool

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return self.defaults | dict(zip(self.arguments, args, strict=False)) | kwargs

    def as_method_takes(self, given: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments for the method: the tensors, and what follows the group."""
        at = self.arguments.index("process_group")
        first, rest = self.arguments[:at], self.arguments[at + 1 :]
        tensors = [given[name] for name in first]
        if self.method in ("send", "recv", "recv_anysource"):
            return (*tensors, *(given[name] for name in rest))
        if self.method == "monitored_barrier":
            return (_timeout(given["timeout"]), given["wait_all_ranks"])
        splits = [given[name] for name in rest if name.endswith("split_sizes")]
        options = _options_of(self.method)
        for name, attribute in _IN_OPTIONS.items():
            if name in given:
                setattr(options, attribute, given[name])
        if "reduce_op" in given:
            options.reduceOp = ReduceOp(ReduceOp.RedOpType(given["reduce_op"].op()))
        if given.get("timeout", -1) >= 0:
            options.timeout = _timeout(given["timeout"])
        # The program waits by the Work that it gets, whatever it says of being asynchronous.
        options.asyncOp = True
        if self.method == "barrier":  # by the tensor's device a backend is chosen
            options.device = tensors.pop().device
        return (*tensors, *splits, options)


def replace() -> Callable[[], None]:
    """Let the listeners see these calls, until the function that is returned is called."""
    put_back: list[tuple[Any, Any]] = []
    methods = set(groups.COLLECTIVES)
    for name in sorted({s.name for s in torch._C._jit_get_all_schemas() if s.name.startswith("c10d::")}):
        packet = getattr(torch.ops.c10d, name.removeprefix("c10d::"))
        operator = _read(packet.default._schema)
        if operator is None or operator.method not in methods:
            continue  # check_for_nan communicates nothing
        for callee in (packet, packet.default):
            put_back.append((callee, callee._op))
            callee._op = _seen(operator, callee._op)

    def restore() -> None:
        for callee, original in put_back:
            callee._op = original

    return restore


def _read(schema: Any) -> _Operator | None:
    arguments = tuple(argument.name for argument in schema.arguments)
    if "process_group" not in arguments:
        return None
    name = schema.name.removeprefix("c10d::").rstrip("_")
    defaults = {a.name: a.default_value for a in schema.arguments if a.default_value is not None}
    return _Operator(_OTHERWISE_NAMED.get(name, name), arguments, defaults, len(schema.returns) == 2)


def _seen(operator: _Operator, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        given = operator.given(args, kwargs)
        outer = _outer_of(given.get("process_group"))
        if outer is None or given.get("sparse_indices") is not None or _within_collective():
            return original(*args, **kwargs)
        work = groups.COLLECTIVES[operator.method](outer, *operator.as_method_takes(given))
        if work is None:
            return None
        box = work.boxed()
        return (given[operator.arguments[0]], box) if operator.returns_first else box

    compiler.leave_out([call.__code__])
    return call


def _outer_of(box: Any) -> "groups.Intercepted | None":
    """The wrapper of the group in `box`, or None: also where a tracer has put something else there."""
    if not isinstance(box, torch.ScriptObject):
        return None
    found = ProcessGroup.unbox(box)
    return found if isinstance(found, groups.Intercepted) else groups.outer_of(found)


def _within_collective() -> bool:
    """Whether the listeners see the collective already that this call is a part of."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code is groups.COLLECTIVE_CODE:
            return True
        frame = frame.f_back
    return False


def _options_of(method: str) -> Any:
    if method == "allreduce_coalesced":
        return _distributed_c10d.AllreduceCoalescedOptions()
    kinds = {
        "allreduce": "AllreduceOptions",
        "allgather": "AllgatherOptions",
        "alltoall": "AllToAllOptions",
        "reduce_scatter": "ReduceScatterOptions",
        "reduce": "ReduceOptions",
        "broadcast": "BroadcastOptions",
        "barrier": "BarrierOptions",
        "gather": "GatherOptions",
        "scatter": "ScatterOptions",
    }
    kind = next(kind for start, kind in kinds.items() if method.lstrip("_").startswith(start))
    return getattr(_distributed_c10d, kind)()


def _timeout(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)
