"""A GPU that does not come to an end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault, check_duration, seconds_of
from chaoskit.model import RankSet, Span

_FOREVER_CYCLES: Final = 1 << 62
"""At 2 GHz some seventy years."""
_TRIAL_CYCLES: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class StuckKernel(RankFault):
    """A kernel on the rank's current stream spins, `forever` or `for` a while, as a kernel with an endless
    loop does, or one that waits for a flag which nobody sets. The CPU goes on: the rank enters its
    collectives, whose kernels wait behind this one on the stream, and it stands still only where it waits
    for the GPU. Its own watchdog counts from there; a stack shows a rank that waits, not why.

    How: `torch.cuda._sleep`, torch's own kernel that reads the GPU's clock until so many cycles have passed
    (aten/src/ATen/cuda/Sleep.cu). Seen in NVIDIA/nccl#1013, where the remedy (abort) hangs as well.

    Example:

        faults:
          - stuck-kernel: {rank: 1, for: forever}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "stuck-kernel"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT - {"after"}
    needs: ClassVar[tuple[str, ...]] = ("nccl",)

    rank: RankSet
    for_s: Span | float | Literal["forever"] = "forever"

    def __post_init__(self) -> None:
        if not isinstance(self.for_s, str):
            check_duration("for", self.for_s)

    def fire(self, here: Moment) -> None:
        import torch

        cycles = _FOREVER_CYCLES
        if not isinstance(self.for_s, str):
            cycles = int(seconds_of(self.for_s) * _cycles_per_second())
        torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]


def _cycles_per_second() -> float:
    """Measured, as the clock of a GPU changes."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    torch.cuda._sleep(_TRIAL_CYCLES)  # type: ignore[no-untyped-call]
    end.record()
    end.synchronize()
    return _TRIAL_CYCLES / (float(begin.elapsed_time(end)) / 1000.0)
