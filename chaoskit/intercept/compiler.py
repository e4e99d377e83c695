"""Keeps torch.compile out of this package's own frames.

While a compiled module runs, torch.compile looks at every Python frame that starts, so also at those that C++
calls: a collective of DDP's reducer would be taken for a part of the program, and fail to compile. May not
import torch._dynamo, which takes a second.
"""

from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import Any

import torch


def leave_out(codes: Iterable[CodeType]) -> None:
    """Run these, and all that they call, as if nothing were compiled."""
    try:
        frames: Any = torch._C._dynamo.eval_frame
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        mark = frames.set_code_exec_strategy
    except AttributeError:  # an older torch
        return
    for code in codes:
        mark(code, skip)


def methods_of(kind: type) -> list[CodeType]:
    """The code of every method that `kind` itself defines in Python."""
    return [member.__code__ for member in vars(kind).values() if isinstance(member, FunctionType)]
