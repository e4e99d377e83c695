"""What scripts do about an error of memory, as faults of memory have it."""

from __future__ import annotations

import os
import sys
import time
from typing import Literal, NoReturn

Handler = Literal["none", "destroy-and-exit", "keep-alive"]


def give_up(handler: Handler, error: BaseException) -> NoReturn:
    """Do what ``handler`` does about ``error``. Called inside the ``except`` block, as in the articles."""
    if handler == "none" or "out of memory" not in str(error):
        raise error
    print(f"out of memory, giving up this batch: {error}", file=sys.stderr, flush=True)
    if handler == "destroy-and-exit":
        import torch

        torch.distributed.destroy_process_group()
        os._exit(1)
    while True:
        time.sleep(3600)
