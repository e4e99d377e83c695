"""With how many threads torch computes in a forked rank: as many as in an interpreter of its own.

The fork server computes with one alone, as a fork among OpenMP's threads would hang.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

_DIGITS = 6


def use_threads(environment: Mapping[str, str] = os.environ) -> None:
    """Follow OMP_NUM_THREADS where it is a number; of a list, which is for nested regions, the first."""
    first = environment.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if first.isascii() and first.isdecimal() and len(first) <= _DIGITS and int(first) > 0:
        torch.set_num_threads(int(first))
