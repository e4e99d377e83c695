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

from chaoskit.intercept import compiler, dispatched, independent, names, out_variant
from chaoskit.intercept.group import Intercepted, take_over, wrap
from chaoskit.intercept.listeners import registry

_Function = Callable[..., Any]
_replaced: list[tuple[_Function, _Function]] = []
_undo: list[Callable[[], None]] = []


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
        ("_create_shrunk_process_group", _wrapping_shrunk),
    ):
        original = getattr(c10d, name, None)
        if original is None:  # an older torch
            continue
        replacement = make(original)
        _swap(original, replacement)
        _replaced.append((original, replacement))
    library = out_variant.replace()
    if library is not None:
        _undo.append(library._destroy)
    _undo.append(dispatched.replace())
    _undo.append(independent.replace())


def uninstall() -> None:
    """Put torch's functions back. Groups that are wrapped stay so, and listeners stay until removed."""
    while _replaced:
        original, replacement = _replaced.pop()
        _swap(replacement, original)
    while _undo:
        _undo.pop()()


def is_installed() -> bool:
    """Whether groups made now would be wrapped."""
    return bool(_replaced)


def _swap(old: _Function, new: _Function) -> None:
    compiler.leave_out([new.__code__] if isinstance(new, FunctionType) else [])
    # Modules of torch import these functions by name (device_mesh does), so each has its own reference.
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("torch.distributed"):
            for name, value in list(vars(module).items()):
                if value is old:
                    setattr(module, name, new)
    # By this table torch.compile knows the functions that it has operators for.
    functional = sys.modules.get("torch.distributed._functional_collectives")
    operators: dict[_Function, _Function] = getattr(functional, "traceable_collective_remaps", {})
    if old in operators:
        operators[new] = operators.pop(old)


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


def _wrapping_shrunk(original: _Function) -> _Function:
    # What shrink_group makes without _new_process_group_helper, before it enters the group in its tables.
    @functools.wraps(original)
    def create_shrunk_process_group(
        new_backend: Any, remaining_ranks: list[int], metadata: dict[str, Any], is_default_group: bool
    ) -> Any:
        made = original(new_backend, remaining_ranks, metadata, is_default_group)
        name = names.DEFAULT if is_default_group else names.user_name(made.group_desc, made.group_name)
        outer = wrap(made, metadata["store"], name, tuple(remaining_ranks), None)
        config = c10d._world.pg_backend_config
        if made in config:
            config[outer] = config.pop(made)
        return outer

    return create_shrunk_process_group


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
