"""Torch's flight recorder, which each rank is asked for and writes itself (see chaoskit.rank.answering).

Of gloo and of NCCL alike; with NCCL it was not tried. A rank that is stopped, or in which native code holds
the GIL, cannot answer.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.evidence import process
from chaoskit.evidence.family import Report, Scene, Source
from chaoskit.rank.exchange import Answer

BEGINS_WITHIN_S: Final = 0.5
"""A rank that has not begun by then cannot run Python; one that has begun is waited for."""
_TURN_S: Final = 0.005
_LOOK_S: Final = 0.1
_WHY: Final = {
    Answer.NOBODY: "the rank does not listen: it was not prepared yet, or had not the means",
    Answer.LISTENS: "the rank did not answer in time; native code may hold the GIL",
    Answer.AT_IT: "the rank had not written it in time",
    Answer.NOTHING: "there was no process group",
    Answer.FAILED: "the rank could not write it",
}


@dataclass(frozen=True, slots=True)
class FlightRecorder(Source):
    """What torch itself recorded of the collectives: ``flight_recorder.json``, as torch writes it."""

    name: ClassVar[str] = "flight_recorder"

    def gather(self, scene: Scene) -> Iterator[tuple[int, Report]]:
        asked: set[int] = set()
        for slot, exchange in scene.exchanges.items():
            state = process.look(scene.pids[slot]).state
            if state in ("R", "S", "D"):
                exchange.ask()
                asked.add(slot)
            else:
                yield slot, _none("the rank is stopped" if state in ("T", "t") else "the rank has ended")
        for slot in _answered(scene, asked):
            yield slot, _report(scene, slot)


def _answered(scene: Scene, asked: set[int]) -> Iterator[int]:
    """Give each slot once it has answered or is known to be unable to."""
    begins_until = time.monotonic() + BEGINS_WITHIN_S
    look_at = time.monotonic() + _LOOK_S
    waiting = set(asked)
    while waiting:
        now = time.monotonic()
        may_come = {Answer.AT_IT} if now >= begins_until else {Answer.AT_IT, Answer.LISTENS}
        done = {slot for slot in waiting if scene.exchanges[slot].answer not in may_come}
        if now >= look_at:
            look_at = now + _LOOK_S
            done |= {slot for slot in waiting if process.look(scene.pids[slot]).state not in ("R", "S", "D")}
        yield from sorted(done)
        waiting -= done
        if not scene.left_s:
            yield from sorted(waiting)
            return
        if waiting:
            select.select([], [], [], _TURN_S)


def _report(scene: Scene, slot: int) -> Report:
    try:
        answer = Answer(scene.exchanges[slot].answer)
    except ValueError:
        return _none("the rank has overwritten its answer")
    return Report() if answer is Answer.WRITTEN else _none(_WHY[answer])


def _none(why: str) -> Report:
    return Report(missing=(f"flight recorder: {why}",))
