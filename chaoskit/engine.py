"""Runs scenarios: has their arms supervised side by side, judges, and keeps the files.

This is the one place where plan, supervisor and judge meet. It decides nothing about a verdict.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaoskit import admission, capabilities, codec, filing, placing, private, rundir
from chaoskit.agenda import Agenda, Item, plan_to_watch, plans_of_looks, watched
from chaoskit.errors import LaunchFailed
from chaoskit.history import History
from chaoskit.judge import contract
from chaoskit.judging import judge_again
from chaoskit.launchers import commands
from chaoskit.launchers.forkserver import PRELOAD, PRELOAD_FOR_HOSTS, ServerPool
from chaoskit.model import Outcome, Plan, Status, Verdict, Workload
from chaoskit.plan import startup_env
from chaoskit.redacting import Redactor
from chaoskit.request import (
    ArmId,
    HearsOfWaits,
    Observer,
    RunRequest,
    RunResult,
    Silent,
    WatchRequest,
)
from chaoskit.scenario.survey import Seen, Survey, survey_of
from chaoskit.schedule import Began, Schedule, Task
from chaoskit.supervisor import Supervisor

__all__ = ["Look", "judge_again", "look", "run", "watch"]

ATTEMPTS_MAX = 2
SURVEY = "survey"
"""The folder of the run in which the user's program was run once without any fault."""


@dataclass(frozen=True, slots=True)
class Look:
    """One undisturbed run of a program; ``folder`` has its history."""

    verdict: Verdict
    folder: Path

    @property
    def broken(self) -> str:
        """Why the program cannot be used, or an empty text."""
        if self.verdict.outcome is Outcome.COMPLETED:
            return ""
        came = self.verdict.outcome or "no outcome"
        return f"the program does not complete without any fault ({came}): {self.verdict.reason}"


def run(request: RunRequest, observer: Observer | None = None, seen: Seen | None = None) -> RunResult:
    """Run what is asked and return the verdicts. What a rank does never raises here.

    A user's program is run once without any fault first, to see what it does and that it completes; not so
    those of ``seen``.
    Raises InvalidInput for what cannot be run as asked, LaunchFailed where chaoskit's own
    machinery does not start. Ctrl-C and SIGTERM end every rank and give ``interrupted``.
    """
    return _Run(request, observer or Silent(), seen=seen).run()


def look(request: RunRequest, seen: Seen) -> tuple[dict[Workload, Look], bool]:
    """Run only the users' programs of a request, without any fault: those that are not in ``seen``. Return
    what came of them, and whether it was interrupted. Raises and ends as :func:`run` does."""
    looking = _Run(request, Silent(), seen=seen, only_looks=True)
    result = looking.run()
    return looking.looks, result.interrupted


def watch(request: WatchRequest, observer: Observer | None = None) -> RunResult:
    """Run a user's program once without any fault, and return what came of it: one scenario with one arm.

    Raises and ends as :func:`run` does.
    """
    if request.program.kind == "command":
        ranks = commands.ranks_in(request.program.args) or request.ranks
        request = dataclasses.replace(request, ranks=ranks)
    asked = RunRequest(
        scenarios=(watched(request),), program=None, launcher=request.launcher, seed=request.seed,
        timeout_s=request.timeout_s, runs_dir=request.runs_dir, stall_s=request.stall_s,
        command=request.command, profile=request.profile, time_scale=1.0, native=request.native,
    )  # fmt: skip
    return _Run(asked, observer or Silent(), watched_by=request).run()


class _Run:
    def __init__(
        self,
        request: RunRequest,
        observer: Observer,
        watched_by: WatchRequest | None = None,
        seen: Seen | None = None,
        only_looks: bool = False,
    ) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise LaunchFailed(
                "chaoskit.run must be called from the main thread: its fork server ends with it"
            )
        admission.check(request)
        self.request = request
        self.observer = observer
        self.watched_by = watched_by
        self.only_looks = only_looks
        self.looks: dict[Workload, Look] = {}
        self.seed = request.seed if request.seed is not None else random.SystemRandom().randrange(1 << 31)
        self.torch = admission.torch_version()
        # Without network namespaces the arms share the host's ports, also with other runs.
        self.isolated = capabilities.find("network-namespaces").available
        self.seen = seen or Seen()
        self.items = self._planned(self.seen)
        plans = [plan for item in self.items for plan in item.plans.values()]
        self.redactor = Redactor.of(os.environ, words=sys.argv).knowing(plans)
        self.interrupted = False

    def _planned(self, seen: Seen) -> list[Item]:
        if self.watched_by is not None:
            port = None if self.isolated else admission.free_port()
            plan = plan_to_watch(self.watched_by, self.seed, port)
            item = Item(watched(self.watched_by), plan.backend)
            item.plans[ArmId(plan.scenario, plan.arm, plan.backend, 1, 1)] = plan
            return [item]
        return Agenda(self.request, self.seed, self.isolated, seen.surveys, seen.broken).items()

    # ------------------------------------------------------------ running

    def run(self) -> RunResult:
        run_dir = rundir.create(self.request.runs_dir, self.seed)
        started = time.monotonic()
        record = rundir.RunRecord(
            self.request.command or rundir.command_line(),
            self.seed,
            self.torch,
            time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        )
        rundir.write_record(run_dir, record, self.redactor)
        self._file(run_dir)
        try:
            self._run_all(run_dir)
        except LaunchFailed:
            if not self.interrupted:  # else a server was ended while it was loading: that is the interruption
                raise
        wall = time.monotonic() - started
        last = dataclasses.replace(record, interrupted=self.interrupted, wall_s=round(wall, 3))
        with contextlib.suppress(OSError):  # a full disk, a removed folder: the verdicts are worth more
            rundir.write_record(run_dir, last, self.redactor)
        results = tuple(item.result or item.judged() for item in self.items if item.result or item.verdicts)
        return RunResult(run_dir, self.seed, self.torch, results, wall, self.interrupted)

    def _file(self, run_dir: Path) -> None:
        """Write down what is in no file, and plan anew: the plans say how their arms are run again."""
        request = self.request if self.watched_by else filing.filed(self.request, run_dir, self.redactor)
        if request is not self.request:
            self.request = request
            self.items = self._planned(self.seen)

    def _run_all(self, run_dir: Path) -> None:
        active = self.request.jobs or len(os.sched_getaffinity(0))
        schedule: Schedule[ArmId, Verdict] = Schedule(active, self._gpu_supply())
        with (
            _stop_pipe() as (stop_r, stop_w),
            ServerPool(self._preload(), keep_all=self.watched_by is not None) as pool,
            _signals(lambda: self._interrupt(schedule, pool, stop_w)),
        ):
            on_wait = self.observer.arm_waits if isinstance(self.observer, HearsOfWaits) else _unheard
            arm = _ArmRunner(run_dir, pool, stop_r, self.redactor, self.request.native, on_wait)
            if self.watched_by is None:
                self._look(arm)
            if self.only_looks:
                return
            todo = tuple(key for item in self.items for key in item.plans)
            self.observer.run_started(run_dir, self.seed, todo)
            for item in self.items:
                if item.skip or item.unclear:
                    self._skip(item, run_dir)
            by_key = {k: i for i in self.items if not (i.skip or i.unclear) for k in i.plans}
            for key, item in by_key.items():
                pool.server(startup_env(item.plans[key].profile))  # in this thread: a server dies with it
            for key, item in by_key.items():
                plan = item.plans[key]
                schedule.add(Task(key, partial(arm.run, key, plan), claims=plan.gpu_mib))
            if by_key:
                self._listen(schedule, by_key, arm)

    def _gpu_supply(self) -> int:
        """The GPU memory that arms may take together, with a tenth kept back."""
        plans = [plan for item in self.items if not item.skip for plan in item.plans.values()]
        return placing.supply_mib() * 9 // 10 if any(plan.gpu_mib for plan in plans) else 0

    def _preload(self) -> tuple[str, ...]:
        """What the servers load: what builds virtual hosts too, where arms need it and would each load it."""
        plans = [plan for item in self.items if not item.skip for plan in item.plans.values()]
        return PRELOAD + PRELOAD_FOR_HOSTS if any(p.network is not None for p in plans) else PRELOAD

    def _look(self, arm: _ArmRunner) -> None:
        """Run each of the users' programs once without any fault, and plan anew with what they do."""
        plans = plans_of_looks(self.request, self.items, self.seed, self.isolated)
        surveys: dict[Workload, Survey] = dict(self.seen.surveys)
        broken: dict[Workload, str] = dict(self.seen.broken)
        for program, plan in plans.items():
            if program in self.seen:
                continue
            number = len(self.looks) + 1
            arm.pool.server(startup_env(plan.profile))
            key = ArmId(SURVEY if number == 1 else f"{SURVEY}-{number}", "control", plan.backend, 1, 1)
            verdict, found = arm.watched(key, plan)
            one = self.looks[program] = Look(verdict, rundir.arm_dir(arm.run_dir, key))
            if one.broken:
                broken[program] = one.broken
            else:
                surveys[program] = survey_of(found)
        if self.looks:
            self.items = self._planned(Seen(surveys, broken))

    def _listen(self, schedule: Schedule[ArmId, Verdict], by_key: dict[ArmId, Item], arm: _ArmRunner) -> None:
        for heard in schedule.run():
            item = by_key[dataclasses.replace(heard.key, attempt=1)]
            plan = item.plans[dataclasses.replace(heard.key, attempt=1)]
            if isinstance(heard, Began):
                self.observer.arm_started(heard.key, plan.start_limit_s + plan.deadline_s)
                continue
            verdict = heard.result or self._without_history(plan, heard.error)
            self.observer.arm_ended(heard.key, verdict)
            if heard.key in arm.again:
                again = dataclasses.replace(heard.key, attempt=heard.key.attempt + 1)
                self._keep_attempt(item, heard.key, verdict, again)
                schedule.add(Task(again, partial(arm.run, again, item.plans[again]), alone=True))
                by_key[again] = item
                continue
            item.verdicts[heard.key] = verdict
            if item.complete:
                self._finish(item, schedule)

    def _without_history(self, plan: Plan, error: BaseException | None) -> Verdict:
        plan = self.redactor.plan(plan)
        if self.interrupted:
            return _bare(plan, Status.INCONCLUSIVE, "interrupted before the arm started")
        if isinstance(error, OSError):
            return _bare(plan, Status.INCONCLUSIVE, f"the arm's files cannot be written: {error}")
        why = self.redactor.text(f"{type(error).__name__}: {error}")
        return _bare(plan, Status.INCONCLUSIVE, f"chaoskit's own fault: {why}")

    def _keep_attempt(self, item: Item, key: ArmId, verdict: Verdict, again: ArmId) -> None:
        """Both attempts are reported; the scenario is complete only with the second."""
        item.verdicts[key] = verdict
        plans = {}
        for known, plan in item.plans.items():
            plans[known] = plan
            if known == key:
                plans[again] = dataclasses.replace(plan, attempt=again.attempt)
        item.plans = plans

    def _finish(self, item: Item, schedule: Schedule[ArmId, Verdict]) -> None:
        item.result = item.judged()
        self.observer.scenario_ended(item.result)
        if self.request.stop_at_first and item.result.result == "not_held":
            schedule.stop()

    def _skip(self, item: Item, run_dir: Path) -> None:
        required = any(name in self.request.require for name in (item.skip.split(":")[0], item.backend))
        status = Status.INCONCLUSIVE if required or item.unclear else Status.SKIPPED
        reason = item.unclear or (f"required, but {item.skip}" if required else item.skip)
        for key, plan in ((key, self.redactor.plan(plan)) for key, plan in item.plans.items()):
            verdict = item.verdicts[key] = _bare(plan, status, reason)
            folder = private.folder(rundir.arm_dir(run_dir, key))
            private.write(folder / "plan.json", codec.dump_plan(plan))
            private.write(folder / "verdict.json", codec.dump_verdict(verdict))
            self.observer.arm_ended(key, item.verdicts[key])
        item.result = item.judged()
        self.observer.scenario_ended(item.result)

    def _interrupt(self, schedule: Schedule[ArmId, Verdict], pool: ServerPool, stop_w: int) -> None:
        self.interrupted = True
        schedule.stop()
        pool.give_up_loading()
        os.write(stop_w, b"!")


OnWait = Callable[[ArmId, str, float], None]


def _unheard(arm: ArmId, said: str, since_s: float) -> None:
    """Nobody wants to know who waits for whom."""


class _ArmRunner:
    """Runs one arm in the calling thread: supervise, judge, write."""

    def __init__(
        self, run_dir: Path, pool: ServerPool, stop_r: int, redactor: Redactor, native: bool, on_wait: OnWait
    ) -> None:
        self.run_dir = run_dir
        self.on_wait = on_wait
        self.native = native
        self.redactor = redactor
        self.pool = pool
        self.stop_r = stop_r
        self.again: set[ArmId] = set()

    def run(self, key: ArmId, plan: Plan, on_idle: object) -> Verdict:
        assert callable(on_idle)
        verdict, found = self._supervised(key, plan, on_idle)
        if key.attempt < ATTEMPTS_MAX and contract.worth_another_try(plan, found, verdict):
            self.again.add(key)
        return verdict

    def watched(self, key: ArmId, plan: Plan) -> tuple[Verdict, History]:
        """Run an arm whose history is of interest, too."""
        return self._supervised(key, plan, lambda: None)

    def _supervised(self, key: ArmId, plan: Plan, on_idle: object) -> tuple[Verdict, History]:
        assert callable(on_idle)
        folder = rundir.arm_dir(self.run_dir, key)
        try:
            server = self.pool.server(startup_env(plan.profile))
            environment = self.pool.launcher_environment(plan, folder)
            supervisor = Supervisor(
                plan,
                server,
                folder,
                self.stop_r,
                on_idle=on_idle,
                on_wait=partial(self.on_wait, key),
                environment=environment,
                redactor=self.redactor,
                native=self.native,
            )
            found = supervisor.run()
            verdict = contract.judge(self.redactor.plan(plan), found)
        except Exception:
            with contextlib.suppress(OSError):
                private.folder(folder)
                private.write(folder / "error.txt", self.redactor.text(traceback.format_exc()))
            raise
        private.write(folder / "verdict.json", codec.dump_verdict(verdict))
        return verdict, found


def _bare(plan: Plan, status: Status, reason: str) -> Verdict:
    return Verdict(
        plan.scenario, plan.arm, plan.repeat, plan.attempt, plan.backend, plan.profile.name, status, reason,
        bound_s=plan.bound_s, production_bound_s=plan.production_bound_s, rerun=plan.rerun, notes=plan.notes,
    )  # fmt: skip


@contextmanager
def _stop_pipe() -> Iterator[tuple[int, int]]:
    stop_r, stop_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield stop_r, stop_w
    finally:
        os.close(stop_r)
        os.close(stop_w)


@contextmanager
def _signals(on_signal: object) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into one call; the handlers that were there come back."""
    assert callable(on_signal)

    def handler(number: int, frame: object) -> None:
        on_signal()

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
