"""A request to end that comes while the rank sits in a collective."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import ClassVar, Final, Literal

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import RankSet

_POLL_S: Final = 0.005
_QUIET_POLLS: Final = 4
_LONGEST_WAIT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Sigterm(RankFault):
    """The rank gets SIGTERM, as before a preemption. With `handler: flag` the script has a Python handler
    that only sets a flag to be looked at between steps: Python runs it after the collective that the main
    thread is in, so a rank that waits for a lost peer never ends. Seen in goodfire-ai/spd#677. With
    `handler: exit-zero` it calls `sys.exit(0)`, which a launcher takes for a success. With `handler: none`
    the script's own handler is called, or the default action ends the process.

    At a collective, phase *before* or *during*, the signal is sent once the main thread waits inside the
    operation (a peer is held meanwhile for *during*); at every other trigger at once.

    Example:

        faults:
          - sigterm: {rank: 1, handler: flag}
            when: {op: all_reduce, nth: 8, phase: during}
    """

    name: ClassVar[str] = "sigterm"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    any_thread: ClassVar[bool] = True
    releases: ClassVar[Literal["itself"]] = "itself"

    rank: RankSet
    handler: Literal["flag", "exit-zero", "none"] = "flag"

    def install(self, here: Moment) -> None:
        if self.handler == "flag":
            signal.signal(signal.SIGTERM, _remember)
        elif self.handler == "exit-zero":
            signal.signal(signal.SIGTERM, _exit_zero)

    def fire(self, here: Moment) -> None:
        if here.call is None:
            os.kill(os.getpid(), signal.SIGTERM)
            return
        thread = threading.Thread(target=_send_inside, args=(here, threading.get_native_id()), daemon=True)
        thread.start()


received: list[int] = []
"""What the flag-setting handler saw; a script would look at it between steps."""


def _remember(number: int, _: FrameType | None) -> None:
    received.append(number)


def _exit_zero(number: int, _: FrameType | None) -> None:
    sys.exit(0)


def _send_inside(here: Moment, thread_id: int) -> None:
    """Send SIGTERM once thread ``thread_id`` sleeps in the kernel, then let the held peer go on."""
    stat = Path(f"/proc/self/task/{thread_id}/stat")
    quiet, give_up = 0, time.monotonic() + _LONGEST_WAIT_S
    while quiet < _QUIET_POLLS and time.monotonic() < give_up:
        time.sleep(_POLL_S)
        quiet = quiet + 1 if stat.read_text().rpartition(")")[2].split()[0] == "S" else 0
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_POLL_S)
    here.release()
