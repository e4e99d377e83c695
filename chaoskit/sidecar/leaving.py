"""Who leaves first: a launcher blames the rank whose process it sees end first, so the other keepers leave
after that of the lost rank.

That a process has ended is not enough: a launcher that looks now and then may find several ended at once and
name the one with the lowest number. It is over once the lost rank's keeper has been *waited for* by its
parent, which a keeper on the same host sees, and the others are told by. Decides nothing else, and never
waits for ever.
"""

from __future__ import annotations

import os
from typing import Final

from chaoskit.sidecar import processes

LOOK_S: Final = 0.02
LOOKS: Final = 15
"""So often, at the least, an ended keeper is looked at that nobody waits for: its launcher waits for others
first, or is about to look. In looks, because a machine that stood still has given the launcher no time."""
HELD_UP_S: Final = 3.0
"""How much longer than ``grace_s`` the lost rank's keeper is given: more than it gives a process in the D
state. It may be stopped itself, or its host gone."""
SETTLE_S: Final = 0.3
"""How much later a keeper leaves that cannot see that the launcher has noticed: it is on another host, or
something stands between the lost rank's keeper and the launcher (a shell)."""


class Departure:
    """The end of the lost rank's keeper, as one other keeper waits for it.

    ``pid`` is 0 where that process cannot be seen from here: then somebody has to tell.
    """

    def __init__(self, pid: int, grace_s: float, t: float) -> None:
        self.over = False
        """Whoever waits may leave."""
        self.seen = False
        """The launcher has waited for it, or will not soon: seen from here."""
        self._pid = pid
        self._same_parent = pid > 0 and processes.parent(pid) == os.getppid() > 0
        self._grace_end = t + grace_s
        self._look_at = t
        self._looks = 0
        self._settled_at: float | None = None

    def told(self, t: float) -> None:
        """Somebody who sees it says that it is gone, or nobody is left to say so."""
        if not self._pid and self._settled_at is None:
            self._settled_at = t + SETTLE_S

    def look(self, t: float) -> None:
        """See how far it is. Call it on every turn."""
        if self._pid and not self.seen and t >= self._look_at:
            self._look_at = t + LOOK_S
            self._look(processes.keeper_state(self._pid), t)
        settled = self._settled_at is not None and t >= self._settled_at
        self.over = self.over or settled or t >= self._grace_end + HELD_UP_S

    def next_due(self) -> float:
        """When :meth:`look` is to be called at the latest."""
        bound = self._grace_end + HELD_UP_S
        settled_at = bound if self._settled_at is None else self._settled_at
        return min(bound, settled_at, self._look_at if self._pid and not self.seen else bound)

    def postpone(self, seconds: float) -> None:
        """Nobody ran for so long: it counts for nothing."""
        self._grace_end += seconds
        if self._settled_at is not None:
            self._settled_at += seconds

    def _look(self, state: str, t: float) -> None:
        if state in ("", "X"):
            self.seen = True
            self._settled_at = t if self._same_parent else t + SETTLE_S
        elif state == "Z":
            self._looks += 1
            if self._looks >= LOOKS and t >= self._grace_end:
                self.seen = True
                self._settled_at = t
