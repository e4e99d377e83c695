"""Runs scenarios: plans their arms, has them supervised side by side, judges, and keeps the files.

This is the one place where plan, supervisor and judge meet. It decides nothing about a verdict.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chaoskit import admission, capabilities, codec, history, rundir
from chaoskit.errors import InvalidInput, LaunchFailed, Problem, usage
from chaoskit.history import ArmEnded, History, Malfunction
from chaoskit.judge import contract, scenario_result
from chaoskit.launchers.forkserver import ServerPool
from chaoskit.model import (
    Arm,
    Backend,
    Plan,
    Profile,
    Scenario,
    ScenarioResult,
    Status,
    Topology,
    Verdict,
)
from chaoskit.plan import fixes_world, make_plan, startup_env
from chaoskit.request import ArmId, Observer, RunRequest, RunResult, Silent
from chaoskit.scenario import check_ranks, hardened_arm, load_profile
from chaoskit.schedule import Began, Schedule, Task
from chaoskit.supervisor import Supervisor, write_stacks

CONTROL = scenario_result.CONTROL
ATTEMPTS_MAX = 2


def run(request: RunRequest, observer: Observer | None = None) -> RunResult:
    """Run what is asked and return the verdicts. What a rank does never raises here.

    Raises InvalidInput for what cannot be run as asked, LaunchFailed where chaoskit's own
    machinery does not start. Ctrl-C and SIGTERM end every rank and give ``interrupted``.
    """
    return _Run(request, observer or Silent()).run()


def judge_again(arm_dir: Path) -> Verdict:
    """Return the verdict of an arm from its files alone.

    Raises InvalidInput where they are not there or not readable. A damaged history is judged as
    far as it goes, and is inconclusive.
    """
    try:
        plan = codec.load_plan((arm_dir / "plan.json").read_text(encoding="utf-8"))
        if (skipped := _skipped(arm_dir)) is not None:
            return skipped
        found, problems = history.read(arm_dir / "history.jsonl")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput([Problem(f"cannot be judged: {error}", str(arm_dir))]) from None
    if problems:
        found = _doubted(found, f"the history is damaged ({len(problems)} lines; first: {problems[0]})")
    elif not found.all(Malfunction) and not found.all(ArmEnded):
        found = _doubted(found, "the history ends before the arm did: its last lines are missing")
    return contract.judge(plan, found)


def _doubted(found: History, why: str) -> History:
    return History.of((*found.events, Malfunction(0.0, -1, why)))


def _skipped(arm_dir: Path) -> Verdict | None:
    """The verdict of an arm that was not run: it has no history, and nothing to judge anew."""
    kept = arm_dir / "verdict.json"
    if (arm_dir / "history.jsonl").exists() or not kept.exists():
        return None
    verdict = codec.load_verdict(kept.read_text(encoding="utf-8"))
    return verdict if verdict.outcome is None and verdict.status is not Status.PASS else None


@dataclass(slots=True)
class _Item:
    """One scenario on one backend with the arms to run."""

    scenario: Scenario
    backend: Backend
    plans: dict[ArmId, Plan] = field(default_factory=dict)
    verdicts: dict[ArmId, Verdict] = field(default_factory=dict)
    skip: str = ""
    result: ScenarioResult | None = None

    @property
    def complete(self) -> bool:
        return len(self.verdicts) == len(self.plans)

    def judged(self) -> ScenarioResult:
        ordered = [self.verdicts[key] for key in self.plans if key in self.verdicts]
        return scenario_result.judge(self.scenario.name, self.backend, self.scenario.healthy, ordered)


class _Run:
    def __init__(self, request: RunRequest, observer: Observer) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise LaunchFailed(
                "chaoskit.run must be called from the main thread: its fork server ends with it"
            )
        admission.check(request)
        self.request = request
        self.observer = observer
        self.seed = request.seed if request.seed is not None else random.SystemRandom().randrange(1 << 31)
        self.torch = admission.torch_version()
        # Without network namespaces the arms share the host's ports, also with other runs.
        self.isolated = capabilities.find("network-namespaces").available
        self.items = self._items()
        self.interrupted = False
        self.done: list[ScenarioResult] = []

    # ------------------------------------------------------------ planning

    def _items(self) -> list[_Item]:
        items: list[_Item] = []
        problems: list[Problem] = []
        for scenario in self.request.scenarios:
            backend = self.request.backend or scenario.topology.backend
            item = _Item(scenario, backend)
            ranks, item.skip = self._ranks(scenario, backend)
            try:
                for repeat in range(1, self.request.repeat + 1):
                    for arm, plan in self._plans(scenario, backend, repeat, ranks):
                        item.plans[ArmId(scenario.name, arm, backend, repeat, 1)] = plan
            except InvalidInput as error:
                problems += error.problems
            item.skip = item.skip or self._why_not(scenario, backend)
            items.append(item)
        if problems:
            raise InvalidInput(problems)
        if "nccl" in self.request.require and not any(item.backend == "nccl" for item in items):
            raise usage("nothing here runs on nccl, which --require asks for", "add --backend nccl")
        if not any(item.plans for item in items):
            raise usage("nothing to run: no scenario has an arm of that name")
        return items

    def _ranks(self, scenario: Scenario, backend: Backend) -> tuple[int | None, str]:
        """The number of ranks asked for, and why the scenario cannot be run with it, or an empty text."""
        asked = self.request.ranks
        if asked is None or asked == scenario.topology.ranks:
            return None, ""
        if len(self.request.scenarios) == 1 and not fixes_world(scenario):
            return asked, ""  # what does not fit is then the user's one problem, said in full
        if fixes_world(scenario):
            return None, f"its fault is written for {scenario.topology.ranks} ranks, not {asked}"
        resized = dataclasses.replace(scenario, topology=Topology(asked, scenario.topology.backend))
        unfit = check_ranks(resized)
        return (None, unfit[0].message) if unfit else (asked, "")

    def _plans(
        self, scenario: Scenario, backend: Backend, repeat: int, ranks: int | None
    ) -> Iterator[tuple[str, Plan]]:
        hardened = hardened_arm(scenario)
        if hardened is None:
            raise usage(f"{scenario.name} has no arm besides the control")
        tested = self.request.profile or load_profile(hardened.profile)
        arms: tuple[Arm, ...] = scenario.arms
        if self.request.profile is not None:
            arms = tuple(a for a in arms if a.name in (CONTROL, hardened.name))
        for arm in arms:
            if self.request.arms and arm.name not in self.request.arms:
                continue
            profile = self._profile(arm)
            reference = tested if arm.name in (CONTROL, hardened.name) else profile
            yield (
                arm.name,
                make_plan(
                    scenario,
                    arm,
                    profile=profile,
                    hardened_profile=reference if reference.timeouts.collective_s else tested,
                    backend=backend,
                    seed=self.seed + repeat - 1,
                    repeat=repeat,
                    ranks=ranks,
                    time_scale=self.request.time_scale,
                    timeout_s=self.request.timeout_s,
                    master_port=None if self.isolated else admission.free_port(),
                ),
            )

    def _profile(self, arm: Arm) -> Profile:
        if self.request.profile is not None and arm.name != CONTROL:
            return self.request.profile
        return load_profile(arm.profile)

    def _why_not(self, scenario: Scenario, backend: Backend) -> str:
        if backend not in scenario.backends:
            return f"not for {backend} (the file says: {', '.join(scenario.backends)})"
        needed = list(scenario.requires) + (["nccl"] if backend == "nccl" else [])
        needed += [n for i in scenario.injections for n in i.fault.needs if n not in needed]
        for name in needed:
            capability = capabilities.find(name)
            if not capability.available:
                return f"{name}: {capability.detail}"
        return ""

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
        rundir.write_record(run_dir, record)
        todo = tuple(key for item in self.items for key in item.plans)
        self.observer.run_started(run_dir, self.seed, todo)
        for item in self.items:
            if item.skip:
                self._skip(item, run_dir)
        self._run_arms(run_dir)
        wall = time.monotonic() - started
        last = dataclasses.replace(record, interrupted=self.interrupted, wall_s=round(wall, 3))
        with contextlib.suppress(OSError):  # a full disk, a removed folder: the verdicts are worth more
            rundir.write_record(run_dir, last)
        results = tuple(item.result or item.judged() for item in self.items if item.result or item.verdicts)
        return RunResult(run_dir, self.seed, self.torch, results, wall, self.interrupted)

    def _run_arms(self, run_dir: Path) -> None:
        tasks = [item for item in self.items if not item.skip]
        if not tasks:
            return
        schedule: Schedule[ArmId, Verdict] = Schedule(self.request.jobs or len(os.sched_getaffinity(0)))
        by_key = {key: item for item in tasks for key in item.plans}
        with (
            _stop_pipe() as (stop_r, stop_w),
            ServerPool() as pool,
            _signals(lambda: self._interrupt(schedule, pool, stop_w)),
        ):
            for key, item in by_key.items():
                pool.server(startup_env(item.plans[key].profile))  # in this thread: a server dies with it
            arm = _ArmRunner(run_dir, pool, stop_r)
            for key, item in by_key.items():
                schedule.add(Task(key, partial(arm.run, key, item.plans[key])))
            self._listen(schedule, by_key, arm)

    def _listen(
        self, schedule: Schedule[ArmId, Verdict], by_key: dict[ArmId, _Item], arm: _ArmRunner
    ) -> None:
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
        if self.interrupted:
            return _bare(plan, Status.INCONCLUSIVE, "interrupted before the arm started")
        if isinstance(error, OSError):
            return _bare(plan, Status.INCONCLUSIVE, f"the arm's files cannot be written: {error}")
        return _bare(plan, Status.INCONCLUSIVE, f"chaoskit's own fault: {type(error).__name__}: {error}")

    def _keep_attempt(self, item: _Item, key: ArmId, verdict: Verdict, again: ArmId) -> None:
        """Both attempts are reported; the scenario is complete only with the second."""
        item.verdicts[key] = verdict
        plans = {}
        for known, plan in item.plans.items():
            plans[known] = plan
            if known == key:
                plans[again] = dataclasses.replace(plan, attempt=again.attempt)
        item.plans = plans

    def _finish(self, item: _Item, schedule: Schedule[ArmId, Verdict]) -> None:
        item.result = item.judged()
        self.observer.scenario_ended(item.result)
        if self.request.stop_at_first and item.result.result == "not_held":
            schedule.stop()

    def _skip(self, item: _Item, run_dir: Path) -> None:
        required = any(name in self.request.require for name in (item.skip.split(":")[0], item.backend))
        status = Status.INCONCLUSIVE if required else Status.SKIPPED
        reason = f"required, but {item.skip}" if required else item.skip
        for key, plan in item.plans.items():
            verdict = item.verdicts[key] = _bare(plan, status, reason)
            folder = rundir.arm_dir(run_dir, key)
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / "plan.json").write_text(codec.dump_plan(plan), encoding="utf-8")
            (folder / "verdict.json").write_text(codec.dump_verdict(verdict), encoding="utf-8")
            self.observer.arm_ended(key, item.verdicts[key])
        item.result = item.judged()
        self.observer.scenario_ended(item.result)

    def _interrupt(self, schedule: Schedule[ArmId, Verdict], pool: ServerPool, stop_w: int) -> None:
        self.interrupted = True
        schedule.stop()
        pool.give_up_loading()
        os.write(stop_w, b"!")


class _ArmRunner:
    """Runs one arm in the calling thread: supervise, judge, write."""

    def __init__(self, run_dir: Path, pool: ServerPool, stop_r: int) -> None:
        self.run_dir = run_dir
        self.pool = pool
        self.stop_r = stop_r
        self.again: set[ArmId] = set()

    def run(self, key: ArmId, plan: Plan, on_idle: object) -> Verdict:
        assert callable(on_idle)
        folder = rundir.arm_dir(self.run_dir, key)
        try:
            server = self.pool.server(startup_env(plan.profile))
            found = Supervisor(plan, server, folder, self.stop_r, on_idle=on_idle).run()
            write_stacks(folder, found)
            verdict = contract.judge(plan, found)
        except Exception:
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                (folder / "error.txt").write_text(traceback.format_exc(), encoding="utf-8")
            raise
        (folder / "verdict.json").write_text(codec.dump_verdict(verdict), encoding="utf-8")
        if key.attempt < ATTEMPTS_MAX and contract.worth_another_try(plan, found, verdict):
            self.again.add(key)
        return verdict


def _bare(plan: Plan, status: Status, reason: str) -> Verdict:
    return Verdict(
        plan.scenario, plan.arm, plan.repeat, plan.attempt, plan.backend, plan.profile.name, status, reason,
        bound_s=plan.bound_s, production_bound_s=plan.production_bound_s, rerun=plan.rerun,
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
