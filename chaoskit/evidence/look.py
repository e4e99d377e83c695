"""Looks at all live ranks of an arm: the samples from which *hung* is told from *slow*.

A stack costs a process of its own, so before the deadline it is read only of ranks that are outside
any operation and have run since the last look: those in an operation are known from their recorder,
a stopped one from its state, and one whose main thread was not scheduled at all has not moved.
"""

from __future__ import annotations

import mmap
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from chaoskit.evidence import process, stacks
from chaoskit.evidence.findings import Stacks
from chaoskit.evidence.process import ProcessLook
from chaoskit.evidence.stacks import Stack
from chaoskit.history import Sampled
from chaoskit.rank import region
from chaoskit.rank.region import Live

_REMEMBERED = 64
GONE = "TZX"
"""States of /proc/PID/stat in which a process does nothing."""


class Looks:
    """Looks at the ranks of one arm, one after the other. ``regions``: slot -> its shared memory."""

    def __init__(self, regions: Mapping[int, mmap.mmap]) -> None:
        self._regions = regions
        self._switches: dict[int, int] = {}
        self._tokens: deque[tuple[float, dict[int, str]]] = deque(maxlen=_REMEMBERED)

    def take(self, pids: Mapping[int, int]) -> list[Sampled]:
        """Return a sample of each slot in ``pids`` (slot -> pid)."""
        lives = {slot: region.live(self._regions[slot]) for slot in pids}
        seen = {slot: process.look(pid) for slot, pid in pids.items()}
        ran = {s for s, look in seen.items() if self._switches.get(s, look.switches) != look.switches}
        self._switches = {s: look.switches for s, look in seen.items()}
        wanted = {s: p for s, p in pids.items() if s in ran and not lives[s].op and seen[s].state not in GONE}
        samples = _samples(lives, seen, stacks.gather(wanted))
        self._tokens.append((time.monotonic(), {s.slot: s.token for s in samples}))
        return samples

    def all_moved(self, over_s: float) -> bool:
        """Whether every rank of the last look has got on within ``over_s`` before it: a cheap answer, which
        spares reading all that was recorded."""
        if not self._tokens:
            return False
        now, newest = self._tokens[-1]
        window = [tokens for t, tokens in self._tokens if t >= now - over_s]
        return bool(newest) and all(len({w.get(slot) for w in window}) > 1 for slot in newest)

    def last(self, pids: Mapping[int, int]) -> list[Sampled]:
        """Return a sample of each slot, whatever it does: how the ranks are at the deadline. Their stacks
        come later (:func:`with_stacks`)."""
        lives = {slot: region.live(self._regions[slot]) for slot in pids}
        return _samples(lives, {slot: process.look(pid) for slot, pid in pids.items()}, {})


def with_stacks(samples: Iterable[Sampled], found: Mapping[int, Stacks]) -> list[Sampled]:
    """Return the samples with the main threads' stacks that were found for them."""
    return [_with_stack(sample, stacks.of_main(found.get(sample.slot, Stacks()))) for sample in samples]


def _with_stack(sample: Sampled, stack: Stack) -> Sampled:
    site = stack.user_line or sample.site
    return replace(sample, line=stack.line, stack=stack.frames, site=site)


def _samples(
    lives: Mapping[int, Live], seen: Mapping[int, ProcessLook], found: Mapping[int, Stack]
) -> list[Sampled]:
    now = time.monotonic()
    samples = []
    for slot, live in lives.items():
        look, stack = seen[slot], found.get(slot, Stack())
        if not look.state:
            continue
        samples.append(
            Sampled(
                t_s=now,
                slot=slot,
                state=look.state,
                token=f"{live.seq}.{live.step}.{live.progress}",
                cpu_s=look.cpu_s,
                line=stack.line,
                stack=stack.frames,
                allowance_s=max(0.0, live.allowance_until_s - now) if live.allowance_until_s else 0.0,
                site=stack.user_line or live.site,
                io_bytes=look.io_bytes,
                switches=look.switches,
            )
        )
    return samples
