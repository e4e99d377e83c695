"""A link that holds things up, again and again."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults import _hosts
from chaoskit.faults.family import ANYWHERE, Moment, RankFault, check_duration, seconds_of
from chaoskit.model import RankSet, Span
from chaoskit.network import Order


@dataclass(frozen=True, slots=True)
class LinkJitter(RankFault):
    """From then on what is sent to and from the rank's host is lost for `hold`, then gets through for about
    `every`, and so on: bursts of loss, which TCP repairs by sending again after 0.2 s or more. The link stays
    up, and a healthy job gets slower by fits and starts.

    Needs virtual hosts (`topology: {hosts: 2}`).

    Example:

        faults:
          - link-jitter: {rank: 2, hold: 20ms, every: 300ms}
            when: {op: all_reduce, nth: 4}
    """

    name: ClassVar[str] = "link-jitter"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    any_thread: ClassVar[bool] = True
    needs_hosts: ClassVar[bool] = True

    rank: RankSet
    hold_s: Span | float = 0.02
    every_s: Span | float = 0.3

    def __post_init__(self) -> None:
        check_duration("hold", self.hold_s)
        check_duration("every", self.every_s)

    def fire(self, here: Moment) -> None:
        hold_s, every_s = seconds_of(self.hold_s), seconds_of(self.every_s)
        what = Order("partition", hosts=(_hosts.meant(""),), for_s=hold_s)
        here.network(what)  # the first in this thread: where it cannot be had, the script learns it
        chance = random.Random(here.seed)

        def go_on() -> None:
            while not threading.Event().wait(hold_s + every_s * chance.uniform(0.5, 1.5)):
                try:
                    here.network(what)
                except (RuntimeError, OSError):
                    return  # the arm is at its end

        threading.Thread(target=go_on, name="chaoskit link-jitter", daemon=True).start()
