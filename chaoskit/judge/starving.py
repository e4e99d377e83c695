"""Was a rank seen runnable without getting a core? From two looks in a row at it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from chaoskit.history import Sampled

APART_S = 0.5
"""Looks that are closer tell nothing: CPU time is counted in ticks of 10 ms, and a slice takes several."""
SHARE = 0.5
"""Of a core that it wanted; a rank that computes alone gets nearly all of one."""


def is_seen(samples: Sequence[Sampled]) -> bool:
    """Return whether a rank was runnable at two looks and got less than half a core between them."""
    return any(
        a.state == b.state == "R" and b.t_s - a.t_s >= APART_S and b.cpu_s - a.cpu_s < SHARE * (b.t_s - a.t_s)
        for a, b in pairwise(samples)
    )
