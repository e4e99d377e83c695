"""The warden: parent of one arm's ranks. It sees each death and stop, and leaves nothing when it ends.

Forked by the server, single-threaded, one loop. It sends what it sees to the runner as events of
:mod:`chaoskit.history`. Its connection with the runner is its lifeline: when that closes, or the runner
orders it, every descendant is killed, again and again until there is none. It adopts the orphans among them,
so no double fork and no new session leaves its reach. It judges nothing and protects nobody, except by the
policy of a guard that the plan's profile places in the launcher.
"""

from __future__ import annotations

import functools
import gc
import os
import resource
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, cast

from chaoskit import history
from chaoskit.history import (
    ArmEnded,
    ArmStarted,
    Ended,
    LauncherEnded,
    LauncherStarted,
    Leftover,
    Malfunction,
    Reaped,
    RunDelay,
    Signalled,
    Started,
    Stopped,
)
from chaoskit.launchers import isolation, kernel, policies, rank_process, sweep, temporary
from chaoskit.launchers.launch import ArmLaunch
from chaoskit.launchers.outbox import Outbox
from chaoskit.launchers.output import Capture
from chaoskit.launchers.resources import ArmResources
from chaoskit.model import Plan
from chaoskit.rank import region
from chaoskit.rank.program import SCRATCH_VARIABLE
from chaoskit.rank.region import Channels

_LOOK_AGAIN_S: Final = 0.05  # between walks of the whole tree while it is being ended
_LAUNCHER: Final = -1  # stands for the slot of the user's launcher, which is no rank
_NOT_FOUND: Final = 127
_SAID_BYTES: Final = 2000
_ORDERS_TO_END: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
Sender = Literal["launcher", "supervisor"]


@dataclass(slots=True)
class _Rank:
    slot: int
    pid: int
    sent: dict[int, Sender] = field(default_factory=dict)  # ending signals of ours, and who was first
    delay_noted: bool = False


class Warden:
    """One arm. :meth:`run` returns when all its processes are gone and the runner knows it."""

    def __init__(self, launch: ArmLaunch, connection: int) -> None:
        self._launch = launch
        self._outbox = Outbox(connection)
        self._selector = selectors.DefaultSelector()
        self._alive: dict[int, _Rank] = {}  # by pid
        self._captures: list[Capture] = []
        self._policies: tuple[policies.Armed, ...] = ()
        self._resources = ArmResources()
        self._sent_to_all: list[tuple[str, policies.Kill]] = []
        self._childless = False
        self._started_all = False
        self._leftover_at: float | None = None  # when descendants become leftovers
        self._ending = False
        self._killed: set[int] = set()  # children that got our SIGKILL and are not yet reaped
        self._walk_at = 0.0
        self._open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._signals = self._watch_signals()
        self._selector.register(self._outbox, selectors.EVENT_READ)

    def run(self) -> None:
        """Start the ranks, watch until nothing is left, report. Never raises."""
        try:
            self._prepare()
            self._start_ranks()
        except Exception:  # noqa: BLE001 - whatever it was, the arm is ended and the runner told
            self._give_up(traceback.format_exc())
        self._started_all = True
        try:
            while not self._childless:
                self._turn(self._timeout())
        except Exception:  # noqa: BLE001
            self._give_up(traceback.format_exc())
            sweep.outlive_children(0.0)
        self._finish()

    # ------------------------------------------------------------------------------------ start

    def _prepare(self) -> None:
        rank_process.flush_output()
        os.setsid()
        kernel.adopt_orphans()
        kernel.set_name("chaoskit-warden")
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._open_files[1], self._open_files[1]))
        plan = self._plan()
        self._policies = () if self._launch.command else policies.of(plan)  # it has rules of its own
        isolated = self._launch.isolate and isolation.enter()
        self._resources.prepare(plan, str(os.getpid()))
        self._files_only = self._launch.isolate and not isolated
        os.environ[SCRATCH_VARIABLE] = os.path.join(self._launch.arm_dir, "scratch")
        if self._launch.temporary:
            temporary.use(self._launch.temporary)
        self._main = functools.partial(rank_process.resolve(self._launch.target), plan)
        gc.freeze()  # no collection in a rank may touch, and so copy, the pages it shares
        self._send(ArmStarted(time.monotonic(), -1, isolated))

    def _plan(self) -> Plan | None:
        if not self._launch.load_plan:
            return None
        text = Path(self._launch.plan_path).read_text(encoding="utf-8")
        return cast(Plan, rank_process.resolve(self._launch.load_plan)(text))

    def _watch_signals(self) -> int:
        """Return a descriptor from which the numbers of signals can be read as they come."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_ORDERS_TO_END):
            signal.signal(number, lambda *_: None)
        self._selector.register(reader, selectors.EVENT_READ)
        return reader

    def _start_ranks(self) -> None:
        if self._launch.command:
            self._start_launcher()
            return
        for slot in range(self._launch.ranks):
            self._start_rank(slot)
            self._turn(0)  # a rank may die, and the runner go away, while others are yet to be started
            if self._ending:
                return

    def _start_rank(self, slot: int) -> None:
        channels = Channels(self._launch.memfd, slot, self._launch.doorbell, self._launch.release)
        pid = self._fork(slot, f"rank{slot}", channels, lambda: self._main(slot, channels))
        self._send(Started(time.monotonic(), slot, pid))
        for guard, kill in self._sent_to_all:  # the job is being ended already
            at = self._signal_rank(self._alive[pid], kill)
            self._send(Signalled(at, slot, int(kill.signal), guard, kill.reason))

    def _start_launcher(self) -> None:
        program, environment = self._launch.command[0], temporary.environment_of(self._launch)

        def become_launcher() -> None:
            try:
                os.execvpe(program, list(self._launch.command), environment)  # noqa: S606 - the user's own
            except OSError as error:
                print(f"chaoskit: {program} cannot be started: {error.strerror}", file=sys.stderr, flush=True)
                os._exit(_NOT_FOUND)

        pid = self._fork(_LAUNCHER, "launcher", Channels(-1, 0), become_launcher)
        self._send(LauncherStarted(time.monotonic(), _LAUNCHER, pid))

    def _fork(self, slot: int, folder_name: str, channels: Channels, main: Callable[[], object]) -> int:
        folder = Path(self._launch.arm_dir, folder_name)
        folder.mkdir(parents=True, exist_ok=True)
        out, err = (self._capture(folder / f"{name}.log") for name in ("stdout", "stderr"))
        child = rank_process.Child(slot, channels, out, err, self._open_files, self._files_only, self._let_go)
        try:
            pid = child.fork(main)
        finally:
            os.close(out)
            os.close(err)
        self._alive[pid] = _Rank(slot, pid)
        self._childless = False
        return pid

    def _capture(self, path: Path) -> int:
        """Begin to capture into ``path``; return the descriptor to write to."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        capture = Capture(reader, path)
        self._captures.append(capture)
        self._selector.register(reader, selectors.EVENT_READ, capture)
        return writer

    def _let_go(self) -> None:  # in a forked rank: they would close their numbers again
        self._selector.close()
        self._outbox.close()

    # ------------------------------------------------------------------------------------ loop

    def _timeout(self) -> float | None:
        due = [t for armed in self._policies if (t := armed.policy.next_due()) is not None]
        due += [self._leftover_at] if self._leftover_at is not None else []
        due += [self._walk_at] if self._ending else []
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _turn(self, timeout: float | None) -> None:
        """One round: deaths first, output last and bounded, so that no flood of it delays them."""
        ready = self._selector.select(timeout)
        told = False
        for key, events in ready:
            if key.fileobj is self._outbox:
                told |= self._hear_from_runner(events)
            elif key.fd == self._signals:
                told |= self._drain_signals()
        self._reap()
        if told and not self._ending:
            self._end_all("supervisor")
        self._obey_policies()
        self._look_for_leftovers()
        if self._ending and not self._childless:
            self._kill_what_is_left()
        for key, _ in ready:
            if isinstance(key.data, Capture) and not key.data.pump():
                self._selector.unregister(key.fd)
        self._watch_outbox()

    def _hear_from_runner(self, events: int) -> bool:
        if events & selectors.EVENT_WRITE:
            self._outbox.flush()
        told = events & selectors.EVENT_READ and self._outbox.told_to_end()
        if self._outbox.gone:
            self._selector.unregister(self._outbox)
        return bool(told) or self._outbox.gone

    def _watch_outbox(self) -> None:
        if self._outbox.gone or self._outbox not in self._selector.get_map():
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outbox.pending else 0)
        if self._selector.get_key(self._outbox).events != wanted:
            self._selector.modify(self._outbox, wanted)

    def _drain_signals(self) -> bool:
        """Return whether someone told the warden itself to end, which is not the supervisor's way."""
        try:
            numbers = os.read(self._signals, 4096)
        except BlockingIOError:
            return False
        told = sorted(set(numbers) & set(_ORDERS_TO_END))
        if told and not self._ending:
            name = signal.Signals(told[0]).name
            self._send(Malfunction(time.monotonic(), -1, f"the warden was sent {name}"))
        return bool(told)

    def _reap(self) -> None:
        """Report what the children did since the last look."""
        while not self._childless:
            try:
                self._note_run_delay()
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                return
            self._seen(pid, status, time.monotonic())

    def _note_run_delay(self) -> None:
        """Say how long a rank that has just ended had waited for a core: a zombie still tells."""
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        rank = self._alive.get(dead.si_pid) if dead is not None else None
        if rank is not None and not rank.delay_noted and rank.slot != _LAUNCHER:
            rank.delay_noted = True
            self._send(RunDelay(time.monotonic(), rank.slot, kernel.run_delay_s(rank.pid)))

    def _seen(self, pid: int, status: int, now: float) -> None:
        rank = self._alive.get(pid)
        if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
            if rank is not None:
                self._stopped_or_continued(rank, os.WIFSTOPPED(status), now)
            return
        self._killed.discard(pid)
        exit_code = os.waitstatus_to_exitcode(status)
        if rank is None:
            if self._launch.command:
                self._send(Reaped(now, _LAUNCHER, pid, exit_code))
        elif rank.slot == _LAUNCHER:
            del self._alive[pid]
            said = self._captures[1].last(_SAID_BYTES)
            by: Literal["", "supervisor"] = "supervisor" if rank.sent.get(-exit_code) == "supervisor" else ""
            self._send(LauncherEnded(now, _LAUNCHER, exit_code, by, said))
        else:
            self._ended(rank, exit_code, now)

    def _stopped_or_continued(self, rank: _Rank, stopped: bool, now: float) -> None:
        if rank.slot == _LAUNCHER:
            return
        self._send(Stopped(now, rank.slot, stopped))
        if stopped:
            self._release_holders()
        for armed in self._policies:
            tell = armed.policy.on_stop if stopped else armed.policy.on_continue
            tell(rank.slot, now)

    def _ended(self, rank: _Rank, exit_code: int, now: float) -> None:
        del self._alive[rank.pid]
        self._release_holders()
        by: Sender | Literal[""] = rank.sent.get(-exit_code, "")
        oom_kill = exit_code == -signal.SIGKILL and not by and self._resources.explains_a_kill()
        self._send(Ended(now, rank.slot, exit_code, by, oom_kill))
        for armed in self._policies:
            armed.policy.on_end(rank.slot, exit_code, self._work_done(rank.slot), now)

    def _work_done(self, slot: int) -> bool:
        if self._launch.memfd < 0:
            return False
        with region.map_region(self._launch.memfd, slot) as memory:
            return region.live(memory).work_done

    def _release_holders(self) -> None:
        if self._launch.release >= 0:
            os.eventfd_write(self._launch.release, 1)

    def _obey_policies(self) -> None:
        for armed in self._policies:
            for kill in armed.policy.due(time.monotonic()):
                meant = [rank for rank in self._alive.values() if kill.slot in (None, rank.slot)]
                sent = [(rank.slot, self._signal_rank(rank, kill)) for rank in meant]
                for slot, at in sent:  # told afterwards: nobody's signal waits for words about another's
                    self._send(Signalled(at, slot, int(kill.signal), armed.guard, kill.reason))
                if kill.slot is None:
                    self._sent_to_all.append((armed.guard, kill))

    def _signal_rank(self, rank: _Rank, kill: policies.Kill) -> float:
        """Signal the rank's own process group, as torchrun does; return when."""
        rank.sent.setdefault(kill.signal, "launcher")
        now = time.monotonic()
        try:
            os.killpg(rank.pid, kill.signal)
        except ProcessLookupError:  # just forked, its session is yet to be made
            os.kill(rank.pid, kill.signal)
        return now

    # ------------------------------------------------------------------------------------ end

    def _end_all(self, by: Sender) -> None:
        """From here on, kill until there is nothing left."""
        self._ending = True
        self._walk_at = 0.0
        for rank in self._alive.values():
            rank.sent.setdefault(signal.SIGKILL, by)

    def _kill_what_is_left(self) -> None:
        """Kill each new child once, which is cheap, and now and then all that is below."""
        me = os.getpid()
        for pid in kernel.children(me):
            if pid not in self._killed:
                self._killed.add(pid)
                sweep.kill(pid)
        now = time.monotonic()
        if now >= self._walk_at:
            for pid in sweep.descendants(me):
                sweep.kill(pid)
            self._walk_at = time.monotonic() + _LOOK_AGAIN_S

    def _look_for_leftovers(self) -> None:
        """Once the last rank has ended, give what it started a moment, then name and end it."""
        begun = self._leftover_at is not None
        if self._alive or self._childless or not self._started_all or (self._ending and not begun):
            return
        now = time.monotonic()
        if self._leftover_at is None:
            self._leftover_at = now + self._launch.leftover_grace_s
        if now >= self._leftover_at or self._ending:
            self._leftover_at = None
            self._report_leftovers(now)
            self._end_all("supervisor")

    def _report_leftovers(self, now: float) -> None:
        for pid in sweep.descendants(os.getpid()):
            if kernel.state(pid) not in ("", "Z", "X"):
                self._send(Leftover(now, -1, pid, kernel.command(pid)))

    def _give_up(self, why: str) -> None:
        self._send(Malfunction(time.monotonic(), -1, why))
        if not self._ending:
            self._end_all("supervisor")

    def _finish(self) -> None:
        for capture in self._captures:
            capture.finish()
        try:
            self._resources.clean_up()
        except Exception:  # noqa: BLE001 - a plug-in's cleanup
            self._give_up(traceback.format_exc())
        if self._launch.temporary:
            temporary.remove(self._launch.temporary)
        self._send(ArmEnded(time.monotonic(), -1))
        self._outbox.deliver()

    def _send(self, event: history.Event) -> None:
        self._outbox.send(event)
