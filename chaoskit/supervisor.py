"""Owns one arm: has it started, watches from outside, ends it at its deadline, writes its history.

It protects nobody: a rank that hangs is left to hang until the deadline, evidence is gathered
first, and only then is everything ended. It knows the plan only for its times; what the plan
hoped for is the judge's business.
"""

from __future__ import annotations

import dataclasses
import io
import mmap
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TextIO

from multiprocess.connection import Connection, wait

from chaoskit import codec, history, pacing, private, recorded, scrub, workloads
from chaoskit.evidence import gather, look, parameters, process
from chaoskit.history import (
    ArmEnded,
    DeadlineReached,
    Ended,
    Event,
    History,
    Identity,
    Interrupted,
    Malfunction,
    Reaped,
    Sampled,
    Started,
)
from chaoskit.judge import awaited, condensing, first_difference, hang
from chaoskit.judge.job import Job
from chaoskit.launchers import commands, temporary
from chaoskit.launchers.forkserver import Server
from chaoskit.launchers.launch import ArmLaunch
from chaoskit.launchers.running import RunningArm
from chaoskit.model import Plan
from chaoskit.rank import joining, region
from chaoskit.recorded import Gathering
from chaoskit.redacting import Redactor

END_LIMIT_S = 20.0
"""How long the warden may take to end everything once it is told to."""
IDLE_SHARE = 0.05
IDLE_FOR_S = 0.2
LEFTOVER_GRACE_S = 1.0
WORKERS_GRACE_S = 6.5
"""What a program's DataLoader workers may take to notice that their rank is gone: they look every 5 s."""
SCRATCH_NAME = "scratch"
"""The folder of the arm's own, in its folder of the run directory."""


@dataclass(slots=True)
class Supervisor:
    """One arm, from start to history. ``stop_fd`` becomes readable when chaoskit is to end.

    ``on_idle`` is called once, when the ranks use next to no CPU any more: another arm may start.
    ``environment`` is what a launcher of the user's is started with (all of it). ``redactor`` keeps secrets
    out of all that is written and returned; only the ranks and their launcher get them. ``native``: the
    stacks of a rank that hangs are to have the frames of native code, too. ``on_wait`` is told in words whom
    the ranks of a user's program wait for, and since when, where that is no hang; "" once it is over.
    """

    plan: Plan
    server: Server
    arm_dir: Path
    stop_fd: int
    isolate: bool = True
    on_idle: Callable[[], None] = lambda: None
    on_wait: Callable[[str, float], None] = lambda said, since_s: None
    environment: tuple[tuple[str, str], ...] = ()
    redactor: Redactor = field(default_factory=Redactor)
    native: bool = False
    _events: list[Event] = field(default_factory=list)
    _gathering: Gathering = field(default_factory=Gathering)  # what the ranks have recorded
    _pids: dict[int, int] = field(default_factory=dict)  # of those alive
    _started: dict[int, int] = field(default_factory=dict)
    _read: dict[int, int] = field(default_factory=dict)  # how far each keeper's notes have been read
    _told: float = 0.0  # when everything was told to end
    _ended: bool = False
    _broken: bool = False
    _awaited: str = ""
    _file: TextIO = field(default_factory=io.StringIO)

    def run(self) -> History:
        """Run the arm and return its history, which is then also in ``arm_dir``. Never raises for a rank."""
        private.folder(self.arm_dir)
        plan_path = self.arm_dir / "plan.json"
        private.write(plan_path, codec.dump_plan(self.redactor.plan(self.plan)))
        kept = self.arm_dir / "history.jsonl"
        private.folder(self.arm_dir / SCRATCH_NAME)
        with _channels(self.plan) as channels, private.open_text(kept) as self._file:
            self._run(plan_path, channels)
        found = self._history(kept)
        scrub.scrub(self.arm_dir, self.redactor, SCRATCH_NAME)
        return found

    def _history(self, kept: Path) -> History:
        """Write the whole history, in order of time, and return it; a large one condensed."""
        for event in self._events:
            self._gathering.add(event)
        found = self._gathering.done()
        events = condensing.events_of(found)
        apart = first_difference.events(events, parameters.kept(self.arm_dir))
        added = tuple(map(self.redactor.event, apart))
        ordered = self.arm_dir / "history.jsonl.tmp"
        private.write(ordered, "")
        recorded.write(ordered, found.with_(added))
        ordered.replace(kept)
        return History.of((*events, *added))

    def _note(self, *events: Event) -> None:
        """Keep events, in the file too: a run that is killed leaves what was known."""
        events = tuple(map(self.redactor.event, events))
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
            isolate=self.isolate and self.plan.launcher != "command",  # srun and the like talk to others
            leftover_grace_s=_leftover_grace_s(self.plan),
            command=commands.of(self.plan, str(plan_path)),
            environment=self.environment,
            temporary=temporary.name(self.server.pid),
            plan_text=codec.dump_plan(self.plan),
            secrets=self.redactor.values,
        )
        if self.plan.launcher != "forkserver":
            os.pwrite(channels.plan, launch.plan_text.encode(), 0)
            offer = joining.Offer(os.getpid(), channels.memfd, channels.doorbell_w, channels.plan)
            joining.offer(self.arm_dir, offer)
        arm = self.server.start_arm(launch)
        try:
            self._watch(arm, channels)
        finally:
            arm.close()
            temporary.remove(launch.temporary)  # a warden that was killed has not
            joining.withdraw(self.arm_dir)
            gather.tidy(self.arm_dir, channels.regions)
            self._gathering = _recorded_by(channels, self.redactor)
            for slot in self._unended():
                self._note(Ended(time.monotonic(), slot, -signal.SIGKILL, self._by()))

    # ------------------------------------------------------------ waiting

    def _watch(self, arm: RunningArm, channels: _Channels) -> None:
        clock = pacing.Clock(self.plan, time.monotonic())
        activity = _Activity(self.on_idle)
        looks = look.Looks(channels.regions)
        while not self._ended:
            now = time.monotonic()
            if not self._told and now >= clock.next_look:
                self._note(*looks.take(dict(self._pids)))
                clock.looked(time.monotonic())
                if clock.due(bool(self._pids)):
                    self._at_deadline(arm, channels, clock, looks)
            activity.tick(now, self._pids)
            if self._told and now > clock.limit + END_LIMIT_S:
                self._malfunction("the warden did not end the arm in time")
                return
            timeout = max(0.0, min(clock.next_look, activity.next_tick, now + 1.0) - time.monotonic())
            ready = wait([arm.connection, channels.doorbell_r, self.stop_fd], timeout)
            if arm.connection in ready:
                self._hear(arm.connection)
            if channels.doorbell_r in ready:
                os.read(channels.doorbell_r, 4096)
                self._hear_keepers(channels)
                clock.update([region.live(r).fired for r in channels.regions.values()])
            if self.stop_fd in ready and not self._told:
                self._note(Interrupted(time.monotonic(), -1))
                self._end(arm, clock)
        self._hear_keepers(channels)

    def _at_deadline(
        self, arm: RunningArm, channels: _Channels, clock: pacing.Clock, looks: look.Looks
    ) -> None:
        """Decide what the deadline means: more time, or the end of everything."""
        now = time.monotonic()
        self._hear(arm.connection)
        self._hear_keepers(channels)
        if not self._pids and not clock.nobody_came:
            return  # the last rank has just ended by itself
        if clock.over_s and clock.may_go_on(now) and looks.all_moved(clock.over_s):
            self._tell_wait(None)
            return
        seen = condensing.events_of(_recorded_by(channels, self.redactor).done())
        job = Job.of(History.of(self._events + seen))
        hung = hang.judge(job, clock.over_s).hung
        if not hung and clock.may_go_on(now):
            extra = clock.go_on(now)
            if clock.over_s:
                self._tell_wait(awaited.now(job, clock.over_s))
            if extra:
                self._note(DeadlineReached(now, -1, final=False, extended_s=extra))
            return
        self._note(DeadlineReached(now, -1, final=True, over_s=clock.over_s))
        self._note(*self._evidence(channels, looks, seen))  # evidence first, the end second
        self._end(arm, clock)

    def _tell_wait(self, found: awaited.Awaited | None) -> None:
        said, since_s = ("", 0.0) if found is None else (self.redactor.text(found.said), found.since_s)
        if said != self._awaited:
            self._awaited = said
            self.on_wait(said, since_s)

    def _evidence(self, channels: _Channels, looks: look.Looks, recorded: list[Event]) -> list[Sampled]:
        """Gather all that can be had of the live ranks into their folders; return how they are."""
        samples = looks.last(dict(self._pids))
        asked = gather.Asked(
            self.arm_dir, dict(self._pids), channels.memfd, _store_port(self.plan, recorded), self.native,
            stop_fd=self.stop_fd,
        )  # fmt: skip
        return look.with_stacks(samples, gather.gather(asked).stacks)

    def _end(self, arm: RunningArm, clock: pacing.Clock) -> None:
        self._told = time.monotonic()
        clock.stop()
        arm.end()

    def _hear(self, connection: Connection) -> None:
        try:
            while not self._ended and connection.poll():
                event = history.from_line(connection.recv_bytes().decode())
                self._note(event)
                self._follow(event)
                self._ended = isinstance(event, ArmEnded)
        except (EOFError, OSError):
            self._malfunction("the warden of this arm died; its ranks were ended with it")
        except ValueError as error:
            self._malfunction(f"the warden sent what is no event: {error}")

    def _follow(self, event: Event) -> None:
        """Keep count of who is alive."""
        if isinstance(event, Started):
            self._pids[event.slot] = self._started[event.slot] = event.pid
        elif isinstance(event, Ended):
            self._pids.pop(event.slot, None)
        elif isinstance(event, Reaped):  # a rank whose keeper was killed before it could tell
            slot = next((s for s, pid in self._pids.items() if pid == event.pid), None)
            if slot is not None:
                self._note(Ended(event.t_s, slot, event.exit_code, self._by()))
                del self._pids[slot]

    def _hear_keepers(self, channels: _Channels) -> None:
        """Read what the keepers of the ranks have written since the last time (see chaoskit.rank.joining)."""
        for slot, memory in channels.keepers.items():
            events, self._read[slot] = region.read_notes(memory, slot, self._read.get(slot, 0))
            for event in events:
                if isinstance(event, Ended) and event.slot not in self._pids:
                    continue  # known already from whoever reaped it
                self._note(self._explained(event))
                self._follow(event)

    def _explained(self, event: Event) -> Event:
        """A keeper cannot know that a signal was the warden's."""
        ordered = isinstance(event, Ended) and self._told and event.t_s >= self._told
        return dataclasses.replace(event, by="supervisor") if ordered else event  # type: ignore[call-arg]

    def _by(self) -> Literal["supervisor", "launcher"]:
        return "supervisor" if self._told else "launcher"

    def _unended(self) -> list[int]:
        """The ranks that were started and of whose end nobody told."""
        ended = {e.slot for e in self._events if isinstance(e, Ended)}
        return [] if self._broken else sorted(set(self._started) - ended)

    def _malfunction(self, message: str) -> None:
        self._note(Malfunction(time.monotonic(), -1, message))
        self._ended = self._broken = True


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
    plan: int  # the plan as it is, for ranks that another launcher starts here
    regions: dict[int, mmap.mmap]
    keepers: dict[int, mmap.mmap]  # of ranks that another launcher starts; behind those of the ranks


@contextmanager
def _channels(plan: Plan) -> Iterator[_Channels]:
    ranks = len(plan.ranks)
    keepers = 0 if plan.launcher == "forkserver" else ranks
    memfd = os.memfd_create("chaoskit-recorder", os.MFD_CLOEXEC)
    plan_fd = os.memfd_create(joining.PLAN_MEMORY, os.MFD_CLOEXEC)
    doorbell_r, doorbell_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    release = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    maps: list[mmap.mmap] = []
    try:
        os.truncate(memfd, (ranks + keepers) * region.REGION_BYTES)
        maps = [region.map_region(memfd, number) for number in range(ranks + keepers)]
        regions, kept = dict(enumerate(maps[:ranks])), dict(enumerate(maps[ranks:]))
        yield _Channels(memfd, doorbell_r, doorbell_w, release, plan_fd, regions, kept)
    finally:
        for memory in maps:
            memory.close()
        for fd in (memfd, plan_fd, doorbell_r, doorbell_w, release):
            os.close(fd)


def _recorded_by(channels: _Channels, redactor: Redactor) -> Gathering:
    """Return what the ranks have recorded by now."""
    found = Gathering(told=redactor.event)
    for slot, memory in channels.regions.items():
        region.read_into(found, memory, slot)
    return found


def _leftover_grace_s(plan: Plan) -> float:
    """Return the longer grace for a program of the user's, and for a workload that has DataLoader workers."""
    program = workloads.get(plan.workload.name) if plan.workload.is_built_in else None
    may_have_workers = program is None or "workers" in dict(program.settings)
    return WORKERS_GRACE_S if may_have_workers else LEFTOVER_GRACE_S


def _store_port(plan: Plan, recorded: list[Event]) -> int:
    """Return the port of the job's store: the one that most ranks were given, which a launcher of the user's
    may have chosen, or else the plan's."""
    masters = [e.master.rpartition(":")[2] for e in recorded if isinstance(e, Identity)]
    ports = Counter(port for port in masters if port.isascii() and port.isdecimal() and len(port) <= 5)
    return int(ports.most_common(1)[0][0]) if ports else plan.master_port
