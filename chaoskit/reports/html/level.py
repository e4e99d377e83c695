"""How much of an arm goes into the page, and how the page's size is shared among arms. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from chaoskit.model import Status, Verdict

PAGE_BYTES: Final = 5 << 20
"""A page is never larger: it has to open at once, be mailed, and be kept by a CI."""
ARM_BYTES: Final = 2_500_000
"""What one arm takes at most, however much room there is."""
WEIGHTS: Final = {Status.FAIL: 8, Status.INCONCLUSIVE: 6, Status.PASS: 1, Status.SKIPPED: 0.2}


@dataclass(frozen=True, slots=True)
class Level:
    """How many of each are shown, at most. ``least``: with fewer bytes it is not even tried;
    ``text``: characters of one text."""

    least: int
    text: int
    evidence: int
    moments: int
    ranks: int
    columns: int
    frames: int
    others: int
    sockets: int
    outputs: int
    lines: int
    guards: bool


LEVELS: Final = (
    Level(8000, 2000, 40, 400, 512, 12, 60, 40, 200, 16, 20, guards=True),
    Level(5000, 1000, 12, 60, 64, 5, 30, 4, 20, 3, 12, guards=True),
    Level(3500, 400, 6, 20, 8, 3, 10, 0, 0, 1, 6, guards=False),
    Level(2000, 160, 3, 6, 0, 0, 0, 0, 0, 0, 0, guards=False),
)


class Room:
    """Shares what is left of a page among the arms still to come: one that needs less leaves it to them."""

    def __init__(self, total: int, verdicts: Sequence[Verdict]) -> None:
        self.left = total
        self._weights = [WEIGHTS[v.status] for v in verdicts]

    def share(self) -> int:
        """Return the bytes that the next arm may take."""
        if not self._weights:
            return 0
        weight, total = self._weights[0], sum(self._weights)
        return min(ARM_BYTES, int(self.left * weight / total))

    def spend(self, size: int) -> None:
        """The next arm takes ``size`` bytes."""
        self.left -= size
        del self._weights[:1]
