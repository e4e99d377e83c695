"""One arm under the supervisor: what it writes, what it hears, and what goes wrong around it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaoskit import codec, pacing
from chaoskit.errors import LaunchFailed
from chaoskit.history import (
    ArmEnded,
    DeadlineReached,
    Ended,
    History,
    Injected,
    Interrupted,
    Malfunction,
    Sampled,
    Started,
)
from chaoskit.judge import contract
from chaoskit.model import Outcome, Plan, Status, Workload
from chaoskit.plan import make_plan, startup_env
from chaoskit.scenario import load_profile
from chaoskit.scenario import select as chosen
from chaoskit.supervisor import Supervisor

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 60.0


def plan_of(name: str, arm: str = "control", **changes: Any) -> Plan:
    scenario = chosen([name])[0]
    strict, bare = load_profile("strict"), load_profile("torch-defaults")
    plan = make_plan(
        scenario, arm, profile=bare if arm == "control" else strict, hardened_profile=strict, seed=1
    )
    return dataclasses.replace(plan, **changes)


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended, whether somebody has taken note of it or not."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


class Arm:
    """An arm that runs in a thread of its own, as in the engine."""

    def __init__(self, plan: Plan, pool: Any, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.idle = threading.Event()
        self.idle_count = 0
        self._stop_r, self.stop_w = os.pipe()
        self._server = pool.server(startup_env(plan.profile))
        self._server.wait_ready()
        self._supervisor = Supervisor(plan, self._server, folder, self._stop_r, on_idle=self._on_idle)
        self._thread = threading.Thread(target=self._run)
        self.history = History()
        self.failed: BaseException | None = None
        self._thread.start()

    def _run(self) -> None:
        try:
            self.history = self._supervisor.run()
        except BaseException as error:
            self.failed = error

    def _on_idle(self) -> None:
        self.idle_count += 1
        self.idle.set()

    def until_ranks(self, wanted: Callable[[list[psutil.Process]], bool]) -> list[psutil.Process]:
        """Wait until the ranks are as wanted; nothing tells us."""
        until = time.monotonic() + LIMIT_S
        while True:
            assert time.monotonic() < until
            with contextlib.suppress(psutil.Error):
                ranks = sorted(
                    (
                        p
                        for p in psutil.Process(self._server.pid).children(recursive=True)
                        if p.name().startswith("rank ")
                    ),
                    key=lambda p: p.name(),
                )
                if wanted(ranks):
                    return ranks
            select.select([], [], [], 0.01)

    @property
    def warden(self) -> psutil.Process:
        (found,) = living(psutil.Process(self._server.pid).children())
        return found

    def finish(self) -> History:
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        if self.failed is not None:
            raise self.failed
        left = living(psutil.Process(self._server.pid).children(recursive=True))
        assert left == [], "the arm is over and nothing of it is there"
        return self.history

    def free(self) -> None:
        os.write(self.stop_w, b"!")
        self._thread.join(LIMIT_S)
        for fd in (self._stop_r, self.stop_w):
            os.close(fd)


@pytest.fixture
def start(server_pool: object, tmp_path: Path) -> Iterator[Callable[[Plan], Arm]]:
    arms: list[Arm] = []

    def start(plan: Plan) -> Arm:
        arms.append(Arm(plan, server_pool, tmp_path / f"arm{len(arms)}"))
        return arms[-1]

    yield start
    for arm in arms:
        arm.free()


def is_stopped(ranks: list[psutil.Process]) -> bool:
    return len(ranks) == 4 and ranks[1].status() == psutil.STATUS_STOPPED


def are_training(ranks: list[psutil.Process]) -> bool:
    """With a pause in each step, every step is a switch; forming the process group takes fewer."""
    return len(ranks) == 4 and all(r.num_ctx_switches().voluntary > 300 for r in ranks)


Start = Callable[[Plan], Arm]

# ---------------------------------------------------------------- what goes wrong around it


def test_a_warden_that_is_killed_is_a_malfunction_and_leaves_nothing(start: Start) -> None:
    arm = start(plan_of("rank-stopped", deadline_s=LIMIT_S))
    arm.until_ranks(is_stopped)
    arm.warden.kill()
    found = arm.finish()
    assert [m.message for m in found.all(Malfunction)] == [
        "the warden of this arm died; its ranks were ended with it"
    ]
    verdict = contract.judge(arm.plan, found)
    assert (verdict.status, verdict.outcome) == (Status.INCONCLUSIVE, None)
    assert "the warden of this arm died" in verdict.reason
    assert found.all(Injected), "what the ranks had recorded is kept"


def test_a_warden_that_is_told_to_end_says_so(start: Start) -> None:
    arm = start(plan_of("rank-stopped", deadline_s=LIMIT_S))
    arm.until_ranks(is_stopped)
    arm.warden.terminate()
    verdict = contract.judge(arm.plan, arm.finish())
    assert verdict.status is Status.INCONCLUSIVE
    assert "SIGTERM" in verdict.reason


def test_a_rank_that_a_stranger_kills_proves_nothing(start: Start) -> None:
    endless = Workload("all-reduce-loop", (("steps", 100_000), ("step_s", 0.01)))
    arm = start(plan_of("long-step", workload=endless, injections=()))
    arm.until_ranks(are_training)[3].kill()
    verdict = contract.judge(arm.plan, arm.finish())
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.reason == "rank 3 was ended by signal 9, which nothing in this arm ordered"


def were_ended(found: History, since_s: float) -> None:
    """The arm was ended from ``since_s`` on; a rank may notice a peer's end before it is its own turn."""
    assert all(e.by == "supervisor" or e.t_s > since_s for e in found.all(Ended))
    assert any(e.by == "supervisor" for e in found.all(Ended))


def test_it_ends_at_once_when_it_is_told_to(start: Start) -> None:
    arm = start(plan_of("rank-stopped", deadline_s=LIMIT_S))
    arm.until_ranks(is_stopped)
    os.write(arm.stop_w, b"!")
    found = arm.finish()
    told = found.first(Interrupted)
    assert told is not None
    were_ended(found, told.t_s)
    assert not found.all(DeadlineReached)
    assert contract.judge(arm.plan, found).reason.startswith("interrupted before the arm ended")


def test_a_plan_that_the_ranks_cannot_follow_is_a_malfunction(start: Start) -> None:
    arm = start(plan_of("rank-stopped", workload=Workload("no-such-workload")))
    verdict = contract.judge(arm.plan, arm.finish())
    assert verdict.status is Status.INCONCLUSIVE
    assert "no workload 'no-such-workload'" in verdict.reason


def test_the_plan_is_written_before_anything_is_started(tmp_path: Path) -> None:
    plan = plan_of("rank-stopped")
    seen: list[Plan] = []

    class NoServer:
        pid = 0

        def start_arm(self, launch: Any) -> None:
            seen.append(codec.load_plan(Path(launch.plan_path).read_text()))
            raise LaunchFailed("no more processes")

    with pytest.raises(LaunchFailed, match="no more processes"):
        Supervisor(plan, NoServer(), tmp_path / "arm", 0).run()  # type: ignore[arg-type]
    assert seen == [plan]
    assert {p.name for p in (tmp_path / "arm").iterdir()} == {"plan.json", "history.jsonl", "scratch"}
    assert (tmp_path / "arm" / "history.jsonl").read_text() == ""


# ---------------------------------------------------------------- the deadline


def test_a_hang_lets_others_begin_is_looked_at_and_ended(start: Start) -> None:
    arm = start(plan_of("rank-stopped"))
    found = arm.finish()
    assert arm.idle_count == 1, "said once, long before the deadline"
    assert [d.final for d in found.all(DeadlineReached)] == [True]
    fired = found.all(Injected)[0].t_s
    reached = found.all(DeadlineReached)[0].t_s
    assert reached - fired >= arm.plan.deadline_s
    assert reached - fired < arm.plan.deadline_s + 30.0
    were_ended(found, reached)
    assert len([s for s in found.all(Sampled) if s.slot == 0 and s.t_s <= reached]) >= 3


def test_one_that_still_moves_gets_more_time(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has begun at the limit, also on a busy machine, and is done long before the next."""
    monkeypatch.setattr(pacing, "EXTENSION", 5.0)
    slow = Workload("all-reduce-loop", (("steps", 25), ("step_s", 0.4)))
    arm = start(plan_of("long-step", workload=slow, injections=(), start_limit_s=8.0, expected_result=None))
    found = arm.finish()
    extended = found.all(DeadlineReached)
    assert [(d.final, d.extended_s) for d in extended] == [(False, 40.0)]
    assert contract.judge(arm.plan, found).outcome is Outcome.COMPLETED


def test_one_that_moves_for_ever_is_overdue_which_is_no_verdict(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "EXTENSION", 0.5)
    slow = Workload("all-reduce-loop", (("steps", 1000), ("step_s", 0.1)))
    arm = start(plan_of("long-step", workload=slow, injections=(), start_limit_s=6.0, expected_result=None))
    found = arm.finish()
    verdict = contract.judge(arm.plan, found)
    assert [d.final for d in found.all(DeadlineReached)] == [False, True]
    assert (verdict.outcome, verdict.status) == (Outcome.OVERDUE, Status.INCONCLUSIVE)
    assert "still moving" in verdict.reason


def test_a_fault_that_never_fires_is_not_injected(start: Start) -> None:
    plan = plan_of("rank-stopped")
    late = dataclasses.replace(plan.injections[0].when, nth=1000)
    arm = start(dataclasses.replace(plan, injections=(dataclasses.replace(plan.injections[0], when=late),)))
    verdict = contract.judge(arm.plan, arm.finish())
    assert (verdict.outcome, verdict.status) == (Outcome.NOT_INJECTED, Status.INCONCLUSIVE)
    assert "stop on rank 1 never fired" in verdict.reason
    assert "rank 1 step" in verdict.reason


def test_what_every_source_says_is_in_order_of_time(start: Start) -> None:
    arm = start(plan_of("uncaught-exception"))
    found = arm.finish()
    times = [e.t_s for e in found.events]
    assert times == sorted(times)
    assert len(found.all(Started)) == len(found.all(Ended)) == 4
    assert isinstance(found.events[-1], ArmEnded)
    for ended in found.all(Ended):
        own = [e.t_s for e in found.events if e.slot == ended.slot and not isinstance(e, Sampled)]
        assert max(own) == ended.t_s, "nothing is heard of a rank after its end"
