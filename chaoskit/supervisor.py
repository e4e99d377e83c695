"""Owns one arm: has it started, watches from outside, ends it at its deadline, writes its history.

It protects nobody: a rank that hangs is left to hang until the deadline, evidence is gathered
first, and only then is everything ended. It knows the plan only for its times; what the plan
hoped for is the judge's business.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from multiprocess.connection import Connection, wait

from chaoskit import codec, history
from chaoskit.evidence import look, process
from chaoskit.history import (
    ArmEnded,
    DeadlineReached,
    Ended,
    Event,
    History,
    Interrupted,
    Malfunction,
    Sampled,
    Started,
)
from chaoskit.judge import hang
from chaoskit.judge.job import Job
from chaoskit.launchers.forkserver import Server
from chaoskit.launchers.launch import ArmLaunch
from chaoskit.launchers.running import RunningArm
from chaoskit.model import Plan
from chaoskit.rank import region

STILL_S = 2.0
"""How long nothing may move before a rank counts as still (see judge/hang.py)."""
END_LIMIT_S = 20.0
"""How long the warden may take to end everything once it is told to."""
IDLE_SHARE = 0.05
IDLE_FOR_S = 0.2
EXTENSION = 2.0
"""A job that still moves at its deadline gets this many deadlines more, once, before it is overdue."""


@dataclass(slots=True)
class Supervisor:
    """One arm, from start to history. ``stop_fd`` becomes readable when chaoskit is to end.

    ``on_idle`` is called once, when the ranks use next to no CPU any more: another arm may start.
    """

    plan: Plan
    server: Server
    arm_dir: Path
    stop_fd: int
    isolate: bool = True
    on_idle: Callable[[], None] = lambda: None
    _events: list[Event] = field(default_factory=list)
    _pids: dict[int, int] = field(default_factory=dict)
    _ended: bool = False
    _file: TextIO = field(default_factory=io.StringIO)

    def run(self) -> History:
        """Run the arm and return its history, which is then also in ``arm_dir``. Never raises for a rank."""
        self.arm_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        plan_path = self.arm_dir / "plan.json"
        plan_path.write_text(codec.dump_plan(self.plan), encoding="utf-8")
        kept = self.arm_dir / "history.jsonl"
        with _channels(len(self.plan.ranks)) as channels, kept.open("w", encoding="utf-8") as self._file:
            self._run(plan_path, channels)
        found = History.of(self._events)
        ordered = self.arm_dir / "history.jsonl.tmp"  # with what the ranks recorded, all in order of time
        history.write(ordered, found.events)
        ordered.replace(kept)
        return found

    def _note(self, *events: Event) -> None:
        """Keep events, in the file too: a run that is killed leaves what was known."""
        self._events += events
        self._file.writelines(history.to_line(e) + "\n" for e in events)
        self._file.flush()

    def _run(self, plan_path: Path, channels: _Channels) -> None:
        launch = ArmLaunch(
            plan_path=str(plan_path),
            arm_dir=str(self.arm_dir),
            ranks=len(self.plan.ranks),
            memfd=channels.memfd,
            doorbell=channels.doorbell_w,
            release=channels.release,
            isolate=self.isolate,
        )
        arm = self.server.start_arm(launch)
        try:
            self._watch(arm, channels)
        finally:
            arm.close()
            for slot, memory in channels.regions.items():
                self._events += region.read_events(memory, slot)

    # ------------------------------------------------------------ waiting

    def _watch(self, arm: RunningArm, channels: _Channels) -> None:
        clock = _Clock(self.plan, time.monotonic())
        activity = _Activity(self.on_idle)
        looks = look.Looks(channels.regions)
        told_to_end = False
        while not self._ended:
            now = time.monotonic()
            if not told_to_end and now >= clock.next_look:
                self._note(*looks.take(dict(self._pids)))
                clock.looked(time.monotonic())
                told_to_end = clock.due and self._at_deadline(arm, channels, clock, looks)
            activity.tick(now, self._pids)
            if told_to_end and now > clock.limit + END_LIMIT_S:
                self._malfunction("the warden did not end the arm in time")
                return
            timeout = max(0.0, min(clock.next_look, activity.next_tick, now + 1.0) - time.monotonic())
            ready = wait([arm.connection, channels.doorbell_r, self.stop_fd], timeout)
            if arm.connection in ready:
                self._hear(arm.connection)
            if channels.doorbell_r in ready:
                os.read(channels.doorbell_r, 4096)
                clock.update(self.plan, [region.live(r).fired for r in channels.regions.values()])
            if self.stop_fd in ready and not told_to_end:
                self._note(Interrupted(time.monotonic(), -1))
                told_to_end = self._end(arm, clock)

    def _at_deadline(self, arm: RunningArm, channels: _Channels, clock: _Clock, looks: look.Looks) -> bool:
        """Decide what the deadline means; return whether everything is ended now."""
        now = time.monotonic()
        self._hear(arm.connection)
        if not self._pids:
            return False  # the last rank has just ended by itself
        recorded = [e for slot, memory in channels.regions.items() for e in region.read_events(memory, slot)]
        job = Job.of(History.of(self._events + recorded))
        if self.plan.timeout_s is None and not clock.extended and not hang.judge(job).hung:
            extra = EXTENSION * clock.allowed
            clock.extend(extra)
            self._note(DeadlineReached(now, -1, final=False, extended_s=extra))
            return False
        self._note(DeadlineReached(now, -1, final=True))
        self._note(*looks.stacks(dict(self._pids)))  # evidence first, the end second
        return self._end(arm, clock)

    def _end(self, arm: RunningArm, clock: _Clock) -> bool:
        clock.stop()
        arm.end()
        return True

    def _hear(self, connection: Connection) -> None:
        try:
            while connection.poll():
                event = history.from_line(connection.recv_bytes().decode())
                self._note(event)
                if isinstance(event, Started):
                    self._pids[event.slot] = event.pid
                elif isinstance(event, Ended):
                    self._pids.pop(event.slot, None)
                elif isinstance(event, ArmEnded):
                    self._ended = True
                    return
        except (EOFError, OSError):
            self._malfunction("the warden of this arm died; its ranks were ended with it")
        except ValueError as error:
            self._malfunction(f"the warden sent what is no event: {error}")

    def _malfunction(self, message: str) -> None:
        self._note(Malfunction(time.monotonic(), -1, message))
        self._ended = True


class _Clock:
    """When to look and when to end: the start limit until the last fault has fired, then the deadline.

    Looks are taken every STILL_S / 2, the last at the limit; the first only sees who runs at all (see
    evidence/look.py). On a loaded machine they come later, and the decision waits for them.
    """

    def __init__(self, plan: Plan, start: float) -> None:
        by_launch = bool(plan.injections) and all(i.when.kind == "launch" for i in plan.injections)
        self.allowed = plan.deadline_s if by_launch and not plan.healthy else plan.start_limit_s
        self.extended = False
        self._fired = 0
        self._set(start + self.allowed)

    def _set(self, limit: float) -> None:
        self.limit = limit
        self.next_look = limit - 1.5 * STILL_S
        self._looks: list[float] = []

    @property
    def due(self) -> bool:
        """The limit is there, and enough looks have been taken over a long enough time."""
        looks = self._looks[-hang.SAMPLES_MIN :]
        enough = len(self._looks) > hang.SAMPLES_MIN and looks[-1] - looks[0] > 0.9 * STILL_S
        return time.monotonic() >= self.limit and enough

    def update(self, plan: Plan, fired: list[int]) -> None:
        """A doorbell rang: where a fault has fired anew, the deadline counts from now."""
        if plan.healthy or sum(fired) <= self._fired or self.extended:
            return
        self._fired = sum(fired)
        self.allowed = plan.deadline_s
        self._set(time.monotonic() + plan.deadline_s)

    def looked(self, now: float) -> None:
        self._looks.append(now)
        self.next_look = max(now + STILL_S / 2, self.next_look + STILL_S / 2)

    def extend(self, extra: float) -> None:
        self.extended = True
        self._set(time.monotonic() + extra)

    def stop(self) -> None:
        self.limit = time.monotonic()
        self.next_look = float("inf")


@dataclass(slots=True)
class _Activity:
    """Notices that the ranks do nothing but wait (below IDLE_SHARE of a core for IDLE_FOR_S)."""

    on_idle: Callable[[], None]
    next_tick: float = 0.0
    _since: float = 0.0
    _cpu: float = 0.0

    def tick(self, now: float, pids: dict[int, int]) -> None:
        if now < self.next_tick:
            return
        used = sum(process.cpu_s(pid) for pid in pids.values())
        if self._since and pids and used - self._cpu < IDLE_SHARE * (now - self._since):
            self.on_idle()
            self.next_tick = float("inf")
            return
        self._since, self._cpu = now, used
        self.next_tick = now + IDLE_FOR_S


@dataclass(frozen=True, slots=True)
class _Channels:
    """What the ranks write to and wait on: one memfd with a region per slot, doorbell, release."""

    memfd: int
    doorbell_r: int
    doorbell_w: int
    release: int
    regions: dict[int, mmap.mmap]


@contextmanager
def _channels(ranks: int) -> Iterator[_Channels]:
    memfd = os.memfd_create("chaoskit-recorder", os.MFD_CLOEXEC)
    doorbell_r, doorbell_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    release = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    regions: dict[int, mmap.mmap] = {}
    try:
        os.truncate(memfd, ranks * region.REGION_BYTES)
        regions = {slot: region.map_region(memfd, slot) for slot in range(ranks)}
        yield _Channels(memfd, doorbell_r, doorbell_w, release, regions)
    finally:
        for memory in regions.values():
            memory.close()
        for fd in (memfd, doorbell_r, doorbell_w, release):
            os.close(fd)


def write_stacks(arm_dir: Path, found: History) -> None:
    """Write the last stack of each rank to rank<slot>/stack.json."""
    last = {s.slot: s for s in found.all(Sampled) if s.stack}
    for slot, sample in last.items():
        folder = arm_dir / f"rank{slot}"
        folder.mkdir(exist_ok=True, mode=0o700)
        body = {"state": sample.state, "line": sample.line, "frames": list(sample.stack)}
        (folder / "stack.json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
