"""The warden: parent of one arm's ranks. It sees each death and stop, and leaves nothing when it ends.

Forked by the server, single-threaded, one loop. It sends what it sees to the runner as events of
:mod:`chaoskit.history`. Its connection with the runner is its lifeline: when that closes, or the runner
orders it, every descendant is killed, again and again until there is none. It adopts the orphans among them,
so no double fork and no new session leaves its reach. It judges nothing and protects nobody, except by the
policy of a guard that the plan's profile places in the launcher.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from chaoskit import history
from chaoskit.history import (
    ArmEnded,
    ArmStarted,
    Ended,
    LauncherEnded,
    LauncherStarted,
    Malfunction,
    Reaped,
    RunDelay,
    Signalled,
    Started,
    Stopped,
)
from chaoskit.launchers import isolation, kernel, policies, rank_process, sweep, temporary
from chaoskit.launchers.ending import Killer, Leftovers
from chaoskit.launchers.launch import ArmLaunch
from chaoskit.launchers.outbox import Outbox
from chaoskit.launchers.resources import ArmResources
from chaoskit.launchers.services import STORE, NotStarted, Services
from chaoskit.launchers.signals import Signals
from chaoskit.launchers.spawning import LAUNCHER, Spawner
from chaoskit.model import Plan
from chaoskit.rank import region

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
        self._policies = policies.Policies()
        self._resources = ArmResources()
        self._services = Services(
            Path(launch.arm_dir), self._send, self._let_go, self._host_lost, self._host_back
        )
        self._untold: dict[int, int] = {}  # exit codes on hosts that do not answer, by slot
        self._sent_to_all: list[tuple[str, policies.Kill]] = []
        self._childless = False
        self._started_all = False
        self._leftovers = Leftovers(launch.leftover_grace_s)
        self._switch: socket.socket | None = None
        self._told = False  # the supervisor wants everything ended, evidence first
        self._ending = False
        self._killer = Killer()
        self._spawner = Spawner(launch, self._services, self._selector, self._let_go)
        self._signals = Signals()
        self._selector.register(self._signals, selectors.EVENT_READ)
        self._selector.register(self._outbox, selectors.EVENT_READ)

    def run(self) -> None:
        """Start the ranks, watch until nothing is left, report. Never raises."""
        try:
            self._prepare()
            self._start_ranks()
        except NotStarted as why:
            self._give_up(str(why))
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
        plan = self._plan()
        if not self._launch.command:  # that one has rules of its own
            self._policies = policies.of(plan)
        isolated = self._launch.isolate and isolation.enter()
        if plan is not None:
            self._services.start(plan)
        self._switch = self._services.switch
        if self._switch is not None:
            self._selector.register(self._switch, selectors.EVENT_READ)
        self._resources.prepare(plan, str(os.getpid()), self._services.network_of)
        self._spawner.prepare(plan, files_only=self._launch.isolate and not isolated)
        gc.freeze()  # no collection in a rank may touch, and so copy, the pages it shares
        self._send(ArmStarted(time.monotonic(), -1, isolated))

    def _plan(self) -> Plan | None:
        if not self._launch.load_plan:
            return None
        text = self._launch.plan_text or Path(self._launch.plan_path).read_text(encoding="utf-8")
        return cast(Plan, rank_process.resolve(self._launch.load_plan)(text))

    def _start_ranks(self) -> None:
        if self._launch.command:
            pid = self._watch(LAUNCHER, self._spawner.launcher())
            self._send(LauncherStarted(time.monotonic(), LAUNCHER, pid))
            return
        for slot in range(self._launch.ranks):
            self._start_rank(slot)
            self._turn(0)  # a rank may die, and the runner go away, while others are yet to be started
            if self._ending:
                return

    def _start_rank(self, slot: int) -> None:
        pid = self._watch(slot, self._spawner.rank(slot))
        self._send(Started(time.monotonic(), slot, pid))
        for guard, kill in self._sent_to_all:  # the job is being ended already
            at = self._signal_rank(self._alive[pid], kill)
            self._send(Signalled(at, slot, int(kill.signal), guard, kill.reason))

    def _watch(self, slot: int, pid: int) -> int:
        self._alive[pid] = _Rank(slot, pid)
        self._childless = False
        return pid

    def _let_go(self) -> None:  # in a forked rank: they would close their numbers again
        self._selector.close()
        self._outbox.close()

    # ------------------------------------------------------------------------------------ loop

    def _timeout(self) -> float | None:
        waited = (self._policies.next_due(), self._leftovers.at, self._services.testing_until)
        due = [t for t in waited if t is not None] + ([self._killer.walk_at] if self._ending else [])
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _turn(self, timeout: float | None) -> None:
        """One round: deaths first, output last and bounded, so that no flood of it delays them."""
        ready = self._selector.select(timeout)
        told = False
        for key, events in ready:
            if key.fileobj is self._outbox:
                told |= self._hear_from_runner(events)
            elif key.fileobj is self._signals:
                told |= self._told_by_signal()
        self._hear_switch()
        self._reap()
        self._end_if_told(told)
        self._obey_policies()
        self._look_for_leftovers()
        if self._ending and not self._childless:
            self._killer.kill()
        for key, _ in ready:
            self._spawner.pump(key)
        self._watch_outbox()

    def _hear_switch(self) -> None:
        self._services.hear()
        if self._switch is not None and self._services.switch is None:
            self._selector.unregister(self._switch)
            self._switch = None

    def _host_lost(self, host: str, slots: tuple[int, ...]) -> None:
        for policy in self._policies.of_hosts:
            policy.on_host_lost(host, slots, time.monotonic())

    def _host_back(self, host: str, slots: tuple[int, ...]) -> None:
        """It answers again, and tells what has become of its ranks meanwhile."""
        now = time.monotonic()
        for policy in self._policies.of_hosts:
            policy.on_host_back(host, now)
        for slot in [slot for slot in slots if slot in self._untold]:
            self._tell_end(slot, self._untold.pop(slot), now)

    def _end_if_told(self, told: bool) -> None:
        """Evidence first: paths between virtual hosts are tested before the end, if anybody waits for it."""
        if told and not self._told and not self._outbox.gone:
            self._services.test_paths()
        self._told |= told
        if self._told and not self._ending and (self._outbox.gone or not self._services.testing_until):
            self._end_all("supervisor")

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

    def _told_by_signal(self) -> bool:
        """Return whether someone told the warden itself to end, which is not the supervisor's way."""
        told = self._signals.read()
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
            self._hear_switch()
            self._seen(pid, status, time.monotonic())

    def _note_run_delay(self) -> None:
        """Say how long a rank that has just ended had waited for a core: a zombie still tells."""
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        rank = self._alive.get(dead.si_pid) if dead is not None else None
        if rank is not None and not rank.delay_noted and rank.slot != LAUNCHER:
            rank.delay_noted = True
            self._send(RunDelay(time.monotonic(), rank.slot, kernel.run_delay_s(rank.pid)))

    def _seen(self, pid: int, status: int, now: float) -> None:
        rank, service = self._alive.get(pid), self._services.name_of(pid)
        if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
            if rank is not None and rank.slot != LAUNCHER:
                self._stopped_or_continued(rank, os.WIFSTOPPED(status), now)
            elif service == STORE:
                self._store_stopped_or_continued(os.WIFSTOPPED(status), now)
            return
        self._killer.reaped(pid)
        exit_code = os.waitstatus_to_exitcode(status)
        if service:
            self._service_ended(service, pid, exit_code, now)
        elif rank is None:
            if self._launch.command:
                self._send(Reaped(now, LAUNCHER, pid, exit_code))
        elif rank.slot == LAUNCHER:
            del self._alive[pid]
            by: Literal["", "supervisor"] = "supervisor" if rank.sent.get(-exit_code) == "supervisor" else ""
            self._send(LauncherEnded(now, LAUNCHER, exit_code, by, self._spawner.launcher_said()))
        else:
            self._ended(rank, exit_code, now)

    def _service_ended(self, service: str, pid: int, exit_code: int, now: float) -> None:
        self._services.ended(pid, exit_code)
        if service == STORE and not self._services.is_ending:
            for policy in self._policies.of_store:
                policy.on_store_end(exit_code, now)

    def _store_stopped_or_continued(self, stopped: bool, now: float) -> None:
        for policy in self._policies.of_store:
            tell = policy.on_store_stop if stopped else policy.on_store_continue
            tell(now)

    def _stopped_or_continued(self, rank: _Rank, stopped: bool, now: float) -> None:
        self._send(Stopped(now, rank.slot, stopped))
        if stopped:
            self._release_holders()
            self._services.test_paths()
        for policy in self._policies.of_ranks if not self._services.is_lost(rank.slot) else ():
            tell = policy.on_stop if stopped else policy.on_continue
            tell(rank.slot, now)

    def _ended(self, rank: _Rank, exit_code: int, now: float) -> None:
        del self._alive[rank.pid]
        self._release_holders()
        by: Sender | Literal[""] = rank.sent.get(-exit_code, "")
        oom_kill = exit_code == -signal.SIGKILL and not by and self._resources.explains_a_kill()
        self._send(Ended(now, rank.slot, exit_code, by, oom_kill))
        if exit_code != 0:
            self._services.test_paths()
        if self._services.is_lost(rank.slot):
            self._untold[rank.slot] = exit_code
        else:
            self._tell_end(rank.slot, exit_code, now)

    def _tell_end(self, slot: int, exit_code: int, now: float) -> None:
        for policy in self._policies.of_ranks:
            policy.on_end(slot, exit_code, self._work_done(slot), now)

    def _work_done(self, slot: int) -> bool:
        if self._launch.memfd < 0:
            return False
        with region.map_region(self._launch.memfd, slot) as memory:
            return region.live(memory).work_done

    def _release_holders(self) -> None:
        if self._launch.release >= 0:
            os.eventfd_write(self._launch.release, 1)

    def _obey_policies(self) -> None:
        for guard, kill in self._policies.due():
            meant = [r for r in self._alive.values() if kill.slot in (None, r.slot)]
            meant = [r for r in meant if kill.fence or not self._services.is_lost(r.slot)]
            sent = [(rank.slot, self._signal_rank(rank, kill)) for rank in meant]
            for slot, at in sent:  # told afterwards: nobody's signal waits for words about another's
                self._send(Signalled(at, slot, int(kill.signal), guard, kill.reason))
            if kill.slot is None:
                self._sent_to_all.append((guard, kill))

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
        self._services.expect_the_end()
        for rank in self._alive.values():
            rank.sent.setdefault(signal.SIGKILL, by)

    def _look_for_leftovers(self) -> None:
        """Once the last rank has ended, give what it started a moment, then name and end it."""
        if self._alive or self._childless or not self._started_all:
            return
        if self._services.idle:
            self._services.end()
        elif self._leftovers.are_due(self._ending):
            for found in self._leftovers.find():
                if not self._services.name_of(found.pid):
                    self._send(found)
            self._end_all("supervisor")

    def _give_up(self, why: str) -> None:
        self._send(Malfunction(time.monotonic(), -1, why))
        if not self._ending:
            self._end_all("supervisor")

    def _finish(self) -> None:
        self._spawner.finish()
        try:
            self._services.clean_up()
            self._resources.clean_up()
        except Exception:  # noqa: BLE001 - a plug-in's cleanup
            self._give_up(traceback.format_exc())
        if self._launch.temporary:
            temporary.remove(self._launch.temporary)
        self._send(ArmEnded(time.monotonic(), -1))
        self._outbox.deliver()

    def _send(self, event: history.Event) -> None:
        self._outbox.send(event)
