"""The few functions of torch.distributed that guards stand in front of.

Replaces a function in every module of torch.distributed that holds a reference to it. May not change
what the function does for a healthy script; decides nothing itself.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, Protocol

Function = Callable[..., Any]


class InitHook(Protocol):
    """Stands around ``init_process_group``."""

    def before_init(self, given: dict[str, Any]) -> None:
        """``given`` are the arguments as the script gave them, by name; may be added to."""

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        """The process group has formed, or ``error`` came instead."""


_init_hooks: list[InitHook] = []


def replace(name: str, make: Callable[[Function], Function]) -> None:
    """Replace ``torch.distributed.distributed_c10d.<name>`` by ``make(original)``, wherever torch refers to
    it.

    A module of the user's that imported the function by name before keeps the original.
    """
    from torch.distributed import distributed_c10d

    old = getattr(distributed_c10d, name)
    new = functools.wraps(old)(make(old))
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("torch.distributed"):
            for key, value in list(vars(module).items()):
                if value is old:
                    setattr(module, key, new)


def around_init(hook: InitHook) -> None:
    """Call ``hook`` around every ``init_process_group`` from now on, in the order of these calls."""
    if not _init_hooks:
        replace("init_process_group", _hooked)
    _init_hooks.append(hook)


def _hooked(original: Function) -> Function:
    signature = inspect.signature(original)

    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        given = dict(signature.bind(*args, **kwargs).arguments)
        for hook in _init_hooks:
            hook.before_init(given)
        try:
            result = original(**given)
        except BaseException as error:
            for hook in _init_hooks:
                hook.after_init(given, error)
            raise
        for hook in _init_hooks:
            hook.after_init(given, None)
        return result

    return init_process_group
