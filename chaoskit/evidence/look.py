"""One look at all live ranks of an arm: the samples from which *hung* is told from *slow*.

A stack costs a process of its own, so it is read only of ranks outside any operation: those in
one are known from their recorder, and a stopped one from its state.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Mapping

from chaoskit.evidence import process, stacks
from chaoskit.history import Sampled
from chaoskit.rank import region


def take(
    regions: Mapping[int, memoryview | mmap.mmap], pids: Mapping[int, int], every_stack: bool = False
) -> list[Sampled]:
    """Return a sample of each slot in ``pids`` (slot -> pid); with ``every_stack`` also of waiting ranks."""
    lives = {slot: region.live(regions[slot]) for slot in pids}
    looks = {slot: process.look(pid) for slot, pid in pids.items()}
    wanted = {
        s: p for s, p in pids.items() if every_stack or (not lives[s].op and looks[s].state not in "TZX")
    }
    found = stacks.gather(wanted)
    now = time.monotonic()
    samples = []
    for slot, live in lives.items():
        seen, stack = looks[slot], found.get(slot, stacks.Stack())
        if not seen.state:
            continue
        token = f"{live.seq}.{live.step}.{live.progress}"
        allowance = max(0.0, live.allowance_until_s - now) if live.allowance_until_s else 0.0
        site = stack.user_line or live.site
        samples.append(
            Sampled(
                now,
                slot,
                seen.state,
                token,
                seen.cpu_s,
                stack.line,
                stack.frames,
                allowance,
                site,
                seen.io_bytes,
            )
        )
    return samples
