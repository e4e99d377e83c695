"""Groups that a program makes by `torch.distributed._dist2`, which enters them in no table of torch's.

May not touch groups that torch.distributed itself makes; `hooks` wraps those.
"""

import functools
import importlib
import itertools
from collections.abc import Callable
from typing import Any

from torch.distributed import ProcessGroup

from chaoskit.intercept.group import wrap

_MODULE = "torch.distributed._dist2"
_NAME = "independent"
_numbers = itertools.count(1)


def replace() -> Callable[[], None]:
    """Wrap the groups that are made from now on, until the function that is returned is called."""
    try:
        module: Any = importlib.import_module(_MODULE)
    except ImportError:  # an older torch
        return lambda: None
    original = module.new_group

    @functools.wraps(original)
    def new_group(backend: str, timeout: Any, *args: Any, **kwargs: Any) -> ProcessGroup:
        made: ProcessGroup = original(backend, timeout, *args, **kwargs)
        # torch gives them no name. Their order is what tells one from another, on all ranks alike.
        name = f"{_NAME}{next(_numbers)}"
        ranks = tuple(range(made.size()))
        return wrap(made, made.get_group_store(), name, ranks, timeout.total_seconds())

    module.new_group = new_group

    def restore() -> None:
        module.new_group = original

    return restore
