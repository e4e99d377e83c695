"""Puts the wrapper in place: replaces the few functions of torch.distributed by which groups come into being.

May not replace anything else of torch, and puts back what it replaced.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch.distributed as dist
from torch.distributed import ProcessGroup
from torch.distributed import distributed_c10d as c10d

from chaoskit.intercept import names, out_variant
from chaoskit.intercept.group import Intercepted, take_over, wrap
from chaoskit.intercept.listeners import registry

_Function = Callable[..., Any]
_replaced: list[tuple[_Function, _Function]] = []
_operators: list[Any] = []


def install() -> None:
    """Wrap every process group that is made from now on. Does nothing if that is so already.

    RuntimeError if the default group exists: a program may hold it anywhere, so it could not be replaced.
    """
    if _replaced:
        return
    if dist.is_initialized():
        raise RuntimeError("chaoskit.intercept.install() has to run before init_process_group()")
    for name, make in (
        ("_new_process_group_helper", _wrapping),
        ("init_process_group", _announcing),
        ("batch_isend_irecv", _coalescing),
    ):
        original = getattr(c10d, name)
        replacement = make(original)
        _swap(original, replacement)
        _replaced.append((original, replacement))
    _operators.append(out_variant.replace())


def uninstall() -> None:
    """Put torch's functions back. Groups that are wrapped stay so, and listeners stay until removed."""
    while _replaced:
        original, replacement = _replaced.pop()
        _swap(replacement, original)
    while _operators:
        library = _operators.pop()
        if library is not None:
            library._destroy()


def is_installed() -> bool:
    """Whether groups made now would be wrapped."""
    return bool(_replaced)


def _swap(old: _Function, new: _Function) -> None:
    # Modules of torch import these functions by name (device_mesh does), so each has its own reference.
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("torch.distributed"):
            for name, value in list(vars(module).items()):
                if value is old:
                    setattr(module, name, new)


def _wrapping(original: _Function) -> _Function:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def new_process_group_helper(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        ranks = tuple(given["global_ranks_in_group"])
        if not ranks:
            names.reset()
        made, store = original(*args, **kwargs)
        if isinstance(made, Intercepted):  # a tagged group that exists already
            return made, store
        name = names.user_name(given.get("group_desc"), given["group_name"]) if ranks else names.DEFAULT
        if not isinstance(made, ProcessGroup):  # this rank is not a member
            names.claim(name, ranks)
            return made, store
        timeout = given.get("timeout")
        timeout_s = None if timeout is None else timeout.total_seconds()
        outer = wrap(made, store, name, ranks or tuple(range(made.size())), timeout_s)
        take_over(made, outer)
        return outer, store

    return new_process_group_helper


def _announcing(original: _Function) -> _Function:
    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        registry.notify("init_enter")
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            registry.notify("init_done", error)
            raise
        registry.notify("init_done", None)
        return result

    return init_process_group


def _coalescing(original: _Function) -> _Function:
    # torch batches P2P operations only if `type(group) is ProcessGroup`; unbatched ones can deadlock under
    # NCCL. The same code with another meaning of that one name keeps its behaviour, whatever the version.
    if not isinstance(original, FunctionType):
        raise TypeError(f"batch_isend_irecv is no plain function: {original!r}")

    @functools.wraps(original)
    def batch_isend_irecv(p2p_op_list: list[Any]) -> Any:
        group = p2p_op_list[0].group if p2p_op_list and isinstance(p2p_op_list[0], dist.P2POp) else None
        if not isinstance(group or c10d._get_default_group(), Intercepted):
            return original(p2p_op_list)
        scope = {**original.__globals__, "ProcessGroup": Intercepted}
        return FunctionType(original.__code__, scope, original.__name__)(p2p_op_list)

    return batch_isend_irecv
